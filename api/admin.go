package api

import (
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// OperatorRequest is why an operator does something.
type OperatorRequest struct {
	Reason string `json:"reason,omitempty"` // is kept with the record of it
}

// QuarantineRequest keeps a worker from taking jobs for a while.
type QuarantineRequest struct {
	Reason string       `json:"reason,omitempty"`
	For    job.Duration `json:"for"`
}

// ActionList is a page of what operators did, newest first.
type ActionList struct {
	Actions []fleet.Action `json:"actions"`
	Next    job.ID         `json:"next,omitempty"` // give it as before= for the next page
}

// WorkerStatus is one worker and what it has under way, by the records.
type WorkerStatus struct {
	Worker   fleet.Worker `json:"worker"`
	Running  int64        `json:"running"`  // jobs
	Sessions int64        `json:"sessions"` // live ones
}

// FleetVersion says which programs a fleet consists of.
type FleetVersion struct {
	Dispatcher string         `json:"dispatcher"` // the one that answers
	Schema     fleet.Schema   `json:"schema"`
	Workers    map[string]int `json:"workers"` // connected ones, by version
}

// RequeueRequest has jobs run elsewhere, or at once: those named, or those of a worker.
type RequeueRequest struct {
	Jobs   []job.ID `json:"jobs,omitempty"`
	Worker string   `json:"worker,omitempty"`
	Reason string   `json:"reason"` // the records of the attempts have it
}

// PauseRequest names what is to be paused, or resumed: one of the three.
type PauseRequest struct {
	Batch  job.ID `json:"batch,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Pool   string `json:"pool,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// PauseList is what is paused and not over.
type PauseList struct {
	Pauses []fleet.Pause `json:"pauses"`
}

// OverrideRequest replaces some of what a tenant is granted.
type OverrideRequest struct {
	Weight     *float64       `json:"weight,omitempty"`
	MaxRunning *int           `json:"max_running,omitempty"` // 0: no limit
	LabelCaps  *job.LabelCaps `json:"label_caps,omitempty"`  // {}: none
	For        job.Duration   `json:"for,omitempty"`         // 0: until it is ended
	Reason     string         `json:"reason,omitempty"`
}

// VerifyRequest chooses batches whose counters are to be compared with their rows: the one
// named, or a page of those that are not over.
type VerifyRequest struct {
	Batch  job.ID `json:"batch,omitempty"`
	After  job.ID `json:"after,omitempty"`
	Limit  int    `json:"limit,omitempty"`
	Repair bool   `json:"repair,omitempty"` // sets counters right that alone are wrong
	Reason string `json:"reason,omitempty"`
}

// VerifyReport is what differed, before it was repaired.
type VerifyReport struct {
	Checked   int              `json:"checked"` // batches
	Different []fleet.Verified `json:"different"`
	Repaired  []job.ID         `json:"repaired"`
	Next      job.ID           `json:"next,omitempty"` // give it as after for the next page
}

// SweepRequest removes what attempts stored and no record names.
type SweepRequest struct {
	DryRun bool   `json:"dry_run,omitempty"` // only counts
	Reason string `json:"reason,omitempty"`
}

// SweepReport is what a sweep found.
type SweepReport struct {
	DryRun       bool  `json:"dry_run"`
	Attempts     int   `json:"attempts"`     // with objects that are old enough
	Orphaned     int   `json:"orphaned"`     // of these: attempts that no record names
	Blobs        int   `json:"blobs"`        // inputs that nobody needs
	Environments int   `json:"environments"` // of packages, that nobody has fetched or built for long
	Bytes        int64 `json:"bytes"`        // of all of those
	Removed      int   `json:"removed"`      // objects
}
