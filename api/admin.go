package api

import (
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// OperatorRequest is the reason for an operator's action.
type OperatorRequest struct {
	Reason string `json:"reason,omitempty"` // is stored with the action
}

// QuarantineRequest stops a worker from taking jobs for a while.
type QuarantineRequest struct {
	Reason string       `json:"reason,omitempty"`
	For    job.Duration `json:"for"`
}

// ActionList is a page of operators' actions, newest first.
type ActionList struct {
	Actions []fleet.Action `json:"actions"`
	Next    job.ID         `json:"next,omitempty"` // the before= parameter of the next page
}

// WorkerStatus is one worker and its current work, from the records.
type WorkerStatus struct {
	Worker   fleet.Worker `json:"worker"`
	Running  int64        `json:"running"`  // jobs
	Sessions int64        `json:"sessions"` // live sessions
	// A drain waits for these: the ones that began first, 100 at most of each.
	Jobs         []fleet.WorkerJob     `json:"jobs"`
	LiveSessions []fleet.WorkerSession `json:"live_sessions"`
}

// WorkersRequest does something to all workers that it chooses.
type WorkersRequest struct {
	Workers fleet.WorkerSelector `json:"workers"`
	DryRun  bool                 `json:"dry_run,omitempty"` // only names them
	Reason  string               `json:"reason,omitempty"`
}

// WorkersReport is the result of a WorkersRequest.
type WorkersReport struct {
	Workers []string `json:"workers"` // that were chosen
	Changed int      `json:"changed"` // of them; the others were so already
	DryRun  bool     `json:"dry_run,omitempty"`
}

// FleetVersion lists the versions of a fleet's programs.
type FleetVersion struct {
	Dispatcher string         `json:"dispatcher"` // the dispatcher that responds
	Schema     fleet.Schema   `json:"schema"`
	Workers    map[string]int `json:"workers"` // number of connected workers by version
}

// RequeueRequest moves jobs to other workers, or starts them at once: the given jobs, or all jobs
// of a worker.
type RequeueRequest struct {
	Jobs   []job.ID `json:"jobs,omitempty"`
	Worker string   `json:"worker,omitempty"`
	Reason string   `json:"reason"` // is stored with the attempts
}

// PauseRequest selects what to pause or resume. Exactly one field is set.
type PauseRequest struct {
	Batch  job.ID `json:"batch,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Pool   string `json:"pool,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// PauseList lists current pauses.
type PauseList struct {
	Pauses []fleet.Pause `json:"pauses"`
}

// AsideList is a page of the ends of jobs that the database refused, the oldest first.
type AsideList struct {
	SetAside []fleet.Aside `json:"set_aside"`
	Next     job.ID        `json:"next,omitempty"` // for after; empty: there are no more
}

// OverrideRequest replaces some of a tenant's limits.
type OverrideRequest struct {
	Weight     *float64       `json:"weight,omitempty"`
	MaxRunning *int           `json:"max_running,omitempty"` // 0: unlimited
	LabelCaps  *job.LabelCaps `json:"label_caps,omitempty"`  // {}: none
	For        job.Duration   `json:"for,omitempty"`         // 0: until an operator ends it
	Reason     string         `json:"reason,omitempty"`
}

// VerifyRequest selects batches whose counters to compare with their rows: one batch, or a page of
// active ones.
type VerifyRequest struct {
	Batch  job.ID `json:"batch,omitempty"`
	After  job.ID `json:"after,omitempty"`
	Limit  int    `json:"limit,omitempty"`
	Repair bool   `json:"repair,omitempty"` // corrects batches where only the counters are wrong
	Reason string `json:"reason,omitempty"`
}

// VerifyReport lists the differences before the repair.
type VerifyReport struct {
	Checked   int              `json:"checked"` // batches
	Different []fleet.Verified `json:"different"`
	Repaired  []job.ID         `json:"repaired"`
	Next      job.ID           `json:"next,omitempty"` // the after parameter of the next page
}

// SweepRequest removes objects of attempts without a record.
type SweepRequest struct {
	DryRun bool   `json:"dry_run,omitempty"` // only counts them
	Reason string `json:"reason,omitempty"`
}

// SweepReport is the result of a sweep.
type SweepReport struct {
	DryRun       bool  `json:"dry_run"`
	Attempts     int   `json:"attempts"`     // attempts with objects that are old enough
	Orphaned     int   `json:"orphaned"`     // among them: attempts without a record
	Blobs        int   `json:"blobs"`        // unused inputs
	Environments int   `json:"environments"` // package environments that no worker fetched or built for a long time
	Bytes        int64 `json:"bytes"`        // in total
	Removed      int   `json:"removed"`      // number of objects
}
