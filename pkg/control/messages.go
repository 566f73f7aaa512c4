package control

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// ClaimRequest asks for leases on deliveries.
type ClaimRequest struct {
	Worker string      `json:"worker"`
	Refs   []store.Ref `json:"refs"`
	// Since is which process of the worker's name asks; older ones do not say.
	Since store.Incarnation `json:"since,omitempty"`
	// Partial says that the worker asks again for those that come with a lease and no
	// spec, because the answer was large enough; older ones do not.
	Partial bool `json:"partial,omitempty"`
}

// ClaimReply has one entry for each ref, in order.
type ClaimReply struct {
	Claimed []store.Claimed `json:"claimed"`
	// Secrets are those of the claimed jobs whose policies name some. One that
	// does not exist any more is missing.
	Secrets map[job.ID]Secrets `json:"secrets,omitempty"`
	TTL     job.Duration       `json:"ttl"` // of the leases, counted from before the request was sent
	// Rest is set in place of all the others: nothing was claimed, the deliveries are
	// to be given back, and the worker shall take none for so long.
	Rest job.Duration `json:"rest,omitempty"`
	// Cordoned says that an operator wants the rest: it is about nothing that failed.
	Cordoned bool `json:"cordoned,omitempty"`
}

// Assignment is a job with a lease that its worker has not asked for. The worker
// cannot know when the lease was issued; but not before the dispatcher had heard a
// heartbeat that it names, and when that was sent the worker knows.
type Assignment struct {
	Claimed   store.Claimed `json:"claimed"`
	Secrets   Secrets       `json:"secrets,omitempty"`
	TTL       job.Duration  `json:"ttl"` // of the lease, counted from the heartbeat
	StartedAt time.Time     `json:"started_at"`
	Beat      int64         `json:"beat"` // WorkerInfo.Beat of that heartbeat
}

// HeartbeatRequest says that a worker lives, what it can do and what it holds.
type HeartbeatRequest struct {
	Worker WorkerInfo       `json:"worker"`
	Leases []store.LeaseRef `json:"leases"`
	// Sessions are those that the worker holds; older ones do not send them.
	Sessions []job.ID `json:"sessions,omitempty"`
}

// HeartbeatReply names leases to drop and jobs to cancel.
type HeartbeatReply struct {
	Lost     []store.LeaseRef `json:"lost,omitempty"`
	Canceled []store.LeaseRef `json:"canceled,omitempty"`
	Rest     job.Duration     `json:"rest,omitempty"`     // the worker shall take no jobs for so long; 0: it may take some
	Cordoned bool             `json:"cordoned,omitempty"` // as in ClaimReply
	// Refused says that another process has the worker's name: this one shall take no
	// jobs, and what it runs is taken back.
	Refused string       `json:"refused,omitempty"`
	TTL     job.Duration `json:"ttl"` // of the leases that are not lost, counted from before the request was sent
	// Exclusive says that the worker's pool takes jobs that name it, and no others.
	Exclusive bool `json:"exclusive,omitempty"`
	// LostSessions are those of the request that are over by the record, or another worker's:
	// the worker ends them.
	LostSessions []job.ID `json:"lost_sessions,omitempty"`
	// SessionTTL is how long the worker may hold sessions after it sent the request without
	// the answer to another one; older dispatchers do not send it, and 0 is without limit.
	SessionTTL job.Duration `json:"session_ttl,omitempty"`
	// Protocol is the version that the worker shall speak: the lowest of the dispatchers.
	Protocol int `json:"protocol,omitempty"`
}

// WorkerInfo describes a worker to the fleet.
type WorkerInfo struct {
	ID        string      `json:"id"`
	Pool      string      `json:"pool"`
	Version   string      `json:"version"`
	Slots     int         `json:"slots"` // most jobs at once, without those that have run for long
	Busy      int         `json:"busy"`  // slots in use
	Draining  bool        `json:"draining"`
	StartedAt time.Time   `json:"started_at"`
	Host      policy.Host `json:"host"`
	Beat      int64       `json:"beat,omitempty"` // when the heartbeat was sent, in nanoseconds since StartedAt
	Held      string      `json:"held,omitempty"` // why it takes no jobs at the moment
	// Tally is what it has done; nil: it does not say.
	Tally *store.Tally `json:"tally,omitempty"`
	// Load counts its work; nil: a worker of an earlier release, whose Busy counts jobs.
	Load *store.WorkerLoad `json:"load,omitempty"`
	// Protocol is the highest version of the protocol that it speaks.
	Protocol int `json:"protocol,omitempty"`
	// Offer decides which jobs are dispatched for it.
	Offer placement.Offer `json:"offer"`
}

// FinishRequest records results.
type FinishRequest struct {
	Worker   string         `json:"worker"`
	Finishes []store.Finish `json:"finishes"`
	// Sizes are those of the results, in bytes, where they are behind the request: see Encode.
	Sizes []int `json:"sizes,omitempty"`
	// Omitted is how many bytes the only result has, if it was too large to be sent.
	Omitted int `json:"omitted,omitempty"`
}

// FinishReply has one status for each finish, in order. It is sent after the
// commit.
type FinishReply struct {
	Statuses []store.FinishStatus `json:"statuses"`
}

// ReleaseRequest hands attempts back.
type ReleaseRequest struct {
	Worker   string          `json:"worker"`
	Releases []store.Release `json:"releases"`
}

// ReleaseReply is empty: it says that the release is committed.
type ReleaseReply struct{}
