package store

import (
	"context"

	"github.com/assay-run/assay/pkg/job"
)

// Eraser removes finished work before its retention ends, as an operator may be obliged to do. Readers of erased work
// get job.ErrNotFound. Remove its objects from the object store first.
type Eraser interface {
	// EraseJob removes a job that is over with its spec, its attempts and its record. A batch that it is of has to be over, too,
	// and counts it no longer. job.ErrConflict if it, or the batch, is not over.
	EraseJob(ctx context.Context, a *Action, tenant string, id job.ID) error
	// EndedJobs returns some of the jobs of a batch that is over, n at most. job.ErrConflict if it is not over.
	EndedJobs(ctx context.Context, tenant string, batch job.ID, n int) ([]Ended, error)
	// EraseJobs removes jobs of a batch as EraseJob does, without recording an action.
	EraseJobs(ctx context.Context, tenant string, batch job.ID, jobs []job.ID) error
	// EraseBatch removes a batch whose jobs are all erased; it returns job.ErrConflict if jobs are left.
	EraseBatch(ctx context.Context, a *Action, tenant string, batch job.ID) error
}

// Ended is a job that is over.
type Ended struct {
	Job    job.ID
	Stored bool // there may be something of it in the object store
}
