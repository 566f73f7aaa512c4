package store

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Steering is what operators decide about work, as Operations is about workers.
type Steering interface {
	// Requeue has jobs run elsewhere, or at once: an attempt that runs is taken from its
	// worker and costs its job nothing, what is dispatched is queued, and what waits after
	// a failure of ours waits no longer. Jobs that are over are left alone. It returns
	// the attempts that were taken, for their workers to be told. job.ErrNotFound if a job
	// does not exist; then nothing is done. The reason is for the records of the attempts.
	Requeue(ctx context.Context, a *Action, q Requeue) ([]Canceling, error)

	// Pause keeps the scheduler from dispatching what is named, until Resume; what is
	// dispatched and not claimed waits again, and what runs goes on. job.ErrNotFound for a
	// batch or a tenant that there is not, job.ErrTooMany if MaxPaused batches are paused.
	Pause(ctx context.Context, a *Action, what Pausable) error
	Resume(ctx context.Context, a *Action, what Pausable) error
	// Pauses lists what is paused and not over.
	Pauses(ctx context.Context) ([]Pause, error)

	// Override replaces some of what a tenant is granted, for the given time or (zero) until
	// EndOverride, in place of what an override did before. PutTenant changes what is
	// granted behind it. job.ErrNotFound for a tenant that there is not.
	Override(ctx context.Context, a *Action, tenant string, o Override, d time.Duration) error
	EndOverride(ctx context.Context, a *Action, tenant string) error

	// Verify compares the counters of batches with the rows that they count.
	Verify(ctx context.Context, q VerifyQuery) ([]Verified, error)
	// Repair sets the counters of a batch to what its rows say, where that is all that is
	// wrong with it; else it is job.ErrRefused.
	Repair(ctx context.Context, a *Action, batch job.ID) error
}

// Requeue names jobs, or those that run on a worker: one of both.
type Requeue struct {
	Jobs   []job.ID
	Worker string
}

// MaxRequeue is how many jobs one Requeue takes; of a worker that runs more, so many.
const MaxRequeue = 500

// MaxPaused is how many batches may be paused at once: each look of the scheduler steps over
// them one by one, which takes it about 20 µs for each.
const MaxPaused = 100

// Kinds of what can be paused.
const (
	PauseBatch  = "batch"
	PauseTenant = "tenant" // its batches and single jobs
	PausePool   = "pool"   // its workers: they take no jobs
)

// Pausable is something that can be paused.
type Pausable struct {
	Kind string
	Name string // of a batch, its id
}

// Pause is something that is paused.
type Pause struct {
	Kind   string    `json:"kind"`
	Name   string    `json:"name"`
	At     time.Time `json:"at"` // by the store's clock
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// Override is what counts for a tenant in place of what it is granted. nil: as granted.
type Override struct {
	Weight     *float64       `json:"weight,omitempty"`
	MaxRunning *int           `json:"max_running,omitempty"` // 0: no limit
	LabelCaps  *job.LabelCaps `json:"label_caps,omitempty"`  // empty: none
}

// Overridden is an override and what it is laid over.
type Overridden struct {
	Set     Override   `json:"set"`
	Until   *time.Time `json:"until,omitempty"` // by the store's clock; nil: until it is ended
	Granted Override   `json:"granted"`
}

// VerifyQuery chooses batches: the one named, or those that are not over.
type VerifyQuery struct {
	Batch job.ID
	After job.ID // of those that are not over, from behind this one on
	Limit int    // at least 1
}

// Verified is a batch as its counters have it and as its rows do, at one moment.
type Verified struct {
	Batch    job.ID                `json:"batch"`
	Total    int64                 `json:"total"`
	Recorded int64                 `json:"recorded"` // by the counter
	Results  int64                 `json:"results"`  // rows
	Live     int64                 `json:"live"`     // rows that are queued, dispatched or running
	Ended    bool                  `json:"ended"`    // by the counters
	Counters map[job.Outcome]int64 `json:"counters"`
	Rows     map[job.Outcome]int64 `json:"rows"`
	// Problems says what differs; empty: nothing.
	Problems []string `json:"problems,omitempty"`
	// Repairable says that the counters alone are wrong.
	Repairable bool `json:"repairable,omitempty"`
}
