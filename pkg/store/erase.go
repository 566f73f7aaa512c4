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
	// ErasableJobs returns at most n jobs of a finished batch. It returns job.ErrConflict if the batch is not over.
	ErasableJobs(ctx context.Context, tenant string, batch job.ID, n int) ([]ErasableJob, error)
	// EraseJobs removes jobs of a batch as EraseJob does, without recording an action.
	EraseJobs(ctx context.Context, tenant string, batch job.ID, jobs []job.ID) error
	// EraseBatch removes a batch whose jobs are all erased; it returns job.ErrConflict if jobs are left.
	EraseBatch(ctx context.Context, a *Action, tenant string, batch job.ID) error
}

// ErasableJob is a job that is over.
type ErasableJob struct {
	Job    job.ID
	Stored bool // there may be something of it in the object store
}
