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

// VerifyQuery chooses batches: the one named, or those that are not over.
type VerifyQuery struct {
	Batch job.ID
	After job.ID // of those that are not over, from behind this one on
	Limit int    // at least 1
}
