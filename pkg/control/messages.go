package control

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// ClaimRequest requests leases on deliveries.
type ClaimRequest struct {
	Worker string      `json:"worker"`
	Refs   []store.Ref `json:"refs"`
	// Since identifies the process among those with the worker's name. Older workers do not send
	// it.
	Since store.Incarnation `json:"since,omitempty"`
	// Partial is set if the worker repeats claims that were answered with a lease and no spec
	// because the answer was large enough. Older workers do not set it.
	Partial bool `json:"partial,omitempty"`
}

// ClaimReply has one entry for each ref, in order.
type ClaimReply struct {
	Claimed []store.Claimed `json:"claimed"`
	// Secrets has the secrets of the claimed jobs whose policies name some. Deleted secrets are missing.
	Secrets map[job.ID]Secrets `json:"secrets,omitempty"`
	TTL     job.Duration       `json:"ttl"` // of the leases, counted from before the request was sent
	// Rest is set instead of all other fields: no job was claimed. The worker returns the
	// deliveries and takes none for this time.
	Rest job.Duration `json:"rest,omitempty"`
	// Cordoned is set if an operator ordered the rest, and not because of failures.
	Cordoned bool `json:"cordoned,omitempty"`
}

// Assignment is a job with a lease that its worker has not requested. The worker does not know when
// the lease was issued. But the dispatcher had then received the heartbeat that the assignment
// names, and the worker knows when it sent that.
type Assignment struct {
	Claimed   store.Claimed `json:"claimed"`
	Secrets   Secrets       `json:"secrets,omitempty"`
	TTL       job.Duration  `json:"ttl"` // of the lease, counted from the heartbeat
	StartedAt time.Time     `json:"started_at"`
	Beat      int64         `json:"beat"` // WorkerInfo.Beat of that heartbeat
}

// HeartbeatRequest reports that a worker lives, its offer and its leases.
type HeartbeatRequest struct {
	Worker WorkerInfo       `json:"worker"`
	Leases []store.LeaseRef `json:"leases"`
	// Sessions are the sessions on the worker. Older workers do not send them.
	Sessions []job.ID `json:"sessions,omitempty"`
}

// HeartbeatReply names leases to drop and jobs to cancel.
type HeartbeatReply struct {
	Lost     []store.LeaseRef `json:"lost,omitempty"`
	Canceled []store.LeaseRef `json:"canceled,omitempty"`
	Rest     job.Duration     `json:"rest,omitempty"`     // the worker takes no jobs for this time; 0: it may take some
	Cordoned bool             `json:"cordoned,omitempty"` // as in ClaimReply
	// Refused is why the worker is refused: another process has its name. The worker takes no jobs,
	// and its jobs are taken back.
	Refused string       `json:"refused,omitempty"`
	TTL     job.Duration `json:"ttl"` // of the leases that are not lost, counted from before the request was sent
	// Exclusive is set if the worker's pool takes only jobs that name it.
	Exclusive bool `json:"exclusive,omitempty"`
	// LostSessions are sessions of the request that have ended by the record, or that another
	// worker has. The worker ends them.
	LostSessions []job.ID `json:"lost_sessions,omitempty"`
	// SessionTTL is how long the worker may hold its sessions after it sent this request, unless a
	// later one is answered. Older dispatchers do not send it. 0: no limit.
	SessionTTL job.Duration `json:"session_ttl,omitempty"`
	// Protocol is the version that the worker uses: the lowest of the dispatchers.
	Protocol int `json:"protocol,omitempty"`
}

// WorkerInfo describes a worker to the fleet.
type WorkerInfo struct {
	ID        string      `json:"id"`
	Pool      string      `json:"pool"`
	Version   string      `json:"version"`
	Slots     int         `json:"slots"` // most jobs at once, without long-running ones
	Busy      int         `json:"busy"`  // slots in use
	Draining  bool        `json:"draining"`
	StartedAt time.Time   `json:"started_at"`
	Host      policy.Host `json:"host"`
	Beat      int64       `json:"beat,omitempty"` // when the heartbeat was sent, in nanoseconds since StartedAt
	Held      string      `json:"held,omitempty"` // why it takes no jobs at the moment
	// Tally counts its past work; nil: not sent.
	Tally *store.Tally `json:"tally,omitempty"`
	// Load counts its current work; nil: a worker of an earlier release, whose Busy counts jobs.
	Load *store.WorkerLoad `json:"load,omitempty"`
	// Protocol is the highest version of the protocol that it supports.
	Protocol int `json:"protocol,omitempty"`
	// Offer decides which jobs are dispatched for it.
	Offer placement.Offer `json:"offer"`
}

// FinishRequest records results.
type FinishRequest struct {
	Worker   string         `json:"worker"`
	Finishes []store.Finish `json:"finishes"`
	// Sizes are the sizes of the results that follow the JSON, in bytes: see Encode.
	Sizes []int `json:"sizes,omitempty"`
}

// FinishReply has one status for each finish, in order. It is sent after the commit.
type FinishReply struct {
	Statuses []store.FinishStatus `json:"statuses"`
}

// ReleaseRequest hands attempts back.
type ReleaseRequest struct {
	Worker   string          `json:"worker"`
	Releases []store.Release `json:"releases"`
}

// ReleaseReply is empty. It confirms that the release is committed.
type ReleaseReply struct{}
