package watch

import (
	"context"
	"math"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// BatchStore is the part of the store that Batches reads.
type BatchStore interface {
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
	BatchDone(ctx context.Context, tenant string, id job.ID) (bool, error)
	Progress(ctx context.Context, batches []job.ID) ([]store.Progress, error)
	BatchesByID(ctx context.Context, batches []job.ID) ([]job.Batch, error)
}

// Batches combines the reads of clients that watch batches, for all batches of a tenant at once.
// Tenants have separate queries, so a tenant that watches very many batches slows down only itself.
type Batches struct {
	Store BatchStore

	mu sync.Mutex
	of map[string]*watchers
}

type watchers struct {
	progress *gather[store.Progress]
	batches  *gather[job.Batch]
}

func (w *Batches) tenant(name string) *watchers {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.of[name]; t != nil {
		return t
	}
	if len(w.of) >= maxCounted || w.of == nil {
		w.of = map[string]*watchers{} // running queries end by themselves
	}
	t := newWatchers(w.Store)
	w.of[name] = t
	return t
}

func newWatchers(s BatchStore) *watchers {
	return &watchers{
		progress: newGather(func(ctx context.Context, ids []job.ID) (map[job.ID]store.Progress, error) {
			all, err := s.Progress(ctx, ids)
			found := make(map[job.ID]store.Progress, len(all))
			for _, p := range all {
				found[p.Batch] = p
			}
			return found, err
		}),
		batches: newGather(func(ctx context.Context, ids []job.ID) (map[job.ID]job.Batch, error) {
			all, err := s.BatchesByID(ctx, ids)
			found := make(map[job.ID]job.Batch, len(all))
			for _, b := range all {
				found[b.ID] = b
			}
			return found, err
		}),
	}
}

// Batch is Batch of store.Reader. The result is shared with other callers: do not change it.
func (w *Batches) Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error) {
	b, found, err := w.tenant(tenant).batches.get(ctx, id)
	if err != nil {
		return nil, err
	}
	if !found || b.Tenant != tenant {
		return w.Store.Batch(ctx, tenant, id) // returns the reason
	}
	return &b, nil
}

// Far returns the progress of a batch.
func (w *Batches) Far(ctx context.Context, tenant string, id job.ID) (store.Progress, error) {
	p, found, err := w.tenant(tenant).progress.get(ctx, id)
	if err != nil || found && p.Tenant == tenant {
		return p, err
	}
	done, err := w.Store.BatchDone(ctx, tenant, id) // returns the reason
	return store.Progress{Batch: id, Tenant: tenant, Recorded: math.MaxInt64, Done: done}, err
}
