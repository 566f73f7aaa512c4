package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// eraseAtOnce is how many jobs of a batch are erased in one transaction.
const eraseAtOnce = 500

// Objects stores the artifacts and outputs of jobs, and the notes of erasures and revocations. *object.Store
// implements it.
type Objects interface {
	Put(ctx context.Context, key string, r io.Reader) (object.Info, error)
	List(ctx context.Context, prefix string) iter.Seq2[object.Info, error]
	DeletePrefix(ctx context.Context, prefix string) (int, error)
}

// EraseJob erases a finished job of a tenant: its objects first, then its rows, so that a failed erasure can be
// repeated. It returns job.ErrConflict if the job or its batch is not finished. The record names the job and none of
// its contents.
func (a *Admin) EraseJob(ctx context.Context, who Actor, tenant string, id job.ID) (*store.Action, error) {
	return a.act(ctx, who, "erase job", string(id), "", func(done *store.Action) error {
		j, err := a.Store.Job(ctx, tenant, id)
		if err != nil {
			return err
		}
		if !j.State.Terminal() {
			return fmt.Errorf("%w: job %s is %s: cancel it first", job.ErrConflict, id, j.State)
		}
		if j.BatchID != "" {
			if _, err := a.Store.ErasableJobs(ctx, tenant, j.BatchID, 1); err != nil && !errors.Is(err, job.ErrNotFound) {
				return err
			}
		}
		return a.recordErasure(ctx, tombstoneJob, id, func() error {
			if err := a.eraseObjects(ctx, j.Tenant, store.ErasableJob{Job: id, Stored: true}); err != nil {
				return err
			}
			return a.Store.EraseJob(ctx, done, tenant, id)
		})
	})
}

// EraseBatch erases a finished batch and all its jobs in the same way. After an error, repeat the call.
func (a *Admin) EraseBatch(ctx context.Context, who Actor, tenant string, id job.ID) (*store.Action, error) {
	return a.act(ctx, who, "erase batch", string(id), "", func(done *store.Action) error {
		b, err := a.Store.Batch(ctx, tenant, id)
		if err != nil {
			return err
		}
		if _, err := a.Store.ErasableJobs(ctx, tenant, id, 1); err != nil {
			return err
		}
		return a.recordErasure(ctx, tombstoneBatch, id, func() error { return a.eraseBatch(ctx, done, tenant, b) })
	})
}

func (a *Admin) eraseBatch(ctx context.Context, done *store.Action, tenant string, b *job.Batch) error {
	for {
		ended, err := a.Store.ErasableJobs(ctx, tenant, b.ID, eraseAtOnce)
		if err != nil {
			return err
		}
		if len(ended) == 0 {
			return a.Store.EraseBatch(ctx, done, tenant, b.ID)
		}
		if err := a.eraseObjects(ctx, b.Tenant, ended...); err != nil {
			return err
		}
		ids := make([]job.ID, len(ended))
		for i, e := range ended {
			ids[i] = e.Job
		}
		if err := a.Store.EraseJobs(ctx, tenant, b.ID, ids); err != nil {
			return err
		}
	}
}

func (a *Admin) eraseObjects(ctx context.Context, tenant string, jobs ...store.ErasableJob) error {
	for _, e := range jobs {
		if !e.Stored {
			continue
		}
		prefix, err := object.JobPrefix(tenant, e.Job)
		if err != nil {
			return err
		}
		if _, err := a.Objects.DeletePrefix(ctx, prefix); err != nil {
			return fmt.Errorf("objects of job %s: %w", e.Job, err)
		}
	}
	return nil
}
