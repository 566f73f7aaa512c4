package store

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Steering is the operators' decisions about work; Operations is those about workers.
type Steering interface {
	// Requeue lets jobs run elsewhere, or at once. It takes a running attempt from its worker at no cost to the job,
	// queues dispatched jobs again, and ends the backoff after infrastructure failures. It ignores finished jobs. It
	// returns the attempts taken, whose workers must be notified. It returns job.ErrNotFound, and does nothing, if a
	// job does not exist. The records of the attempts include the reason.
	Requeue(ctx context.Context, a *Action, q Requeue) ([]Canceling, error)

	// Pause stops the dispatching of a batch, tenant or everything until Resume. Dispatched, unclaimed jobs are queued
	// again; running jobs continue. It returns job.ErrNotFound for an unknown batch or tenant and job.ErrTooMany if
	// MaxPaused batches are paused.
	Pause(ctx context.Context, a *Action, what Pausable) error
	Resume(ctx context.Context, a *Action, what Pausable) error
	// Pauses lists the current pauses.
	Pauses(ctx context.Context) ([]Pause, error)

	// Override replaces some of a tenant's settings, for the given time or (zero) until EndOverride, and replaces an
	// earlier override. PutTenant changes the settings underneath. It returns job.ErrNotFound for an unknown tenant.
	Override(ctx context.Context, a *Action, tenant string, o Override, d time.Duration) error
	EndOverride(ctx context.Context, a *Action, tenant string) error

	// Verify compares the counters of batches with the rows that they count.
	Verify(ctx context.Context, q VerifyQuery) ([]Verified, error)
	// Repair sets the counters of a batch to the counts of its rows, if nothing else is wrong with it; else it returns
	// job.ErrRefused.
	Repair(ctx context.Context, a *Action, batch job.ID) error
}

// Requeue selects jobs by id, or the jobs that run on a worker.
type Requeue struct {
	Jobs   []job.ID
	Worker string
}

// MaxRequeue is how many jobs one Requeue takes; of a worker that runs more, so many.
const MaxRequeue = 500

// MaxPaused is how many batches may be paused at once: each look of the scheduler steps over
// them one by one, which takes it about 20 µs for each.
const MaxPaused = 100

// Kinds of pausable objects.
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

// VerifyQuery selects one batch, or all unfinished batches.
type VerifyQuery struct {
	Batch job.ID
	After job.ID // of unfinished batches, from after this one
	Limit int    // at least 1
}
