package watch

import (
	"context"
	"math"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Batches is how those who watch batches read them: many at once, for all of a tenant's.
// Another tenant's questions are others, so that who watches very many batches is answered
// late alone.
type Batches struct {
	Store store.Reader

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
		w.of = map[string]*watchers{} // questions under way end by themselves
	}
	t := newWatchers(w.Store)
	w.of[name] = t
	return t
}

func newWatchers(s store.Reader) *watchers {
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

// Batch is store.Reader's Batch. What it returns is not to be changed: others have it, too.
func (w *Batches) Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error) {
	b, found, err := w.tenant(tenant).batches.get(ctx, id)
	if err != nil {
		return nil, err
	}
	if !found || b.Tenant != tenant {
		return w.Store.Batch(ctx, tenant, id) // it says why not
	}
	return &b, nil
}

// Far says how far a batch is.
func (w *Batches) Far(ctx context.Context, tenant string, id job.ID) (store.Progress, error) {
	p, found, err := w.tenant(tenant).progress.get(ctx, id)
	if err != nil || found && p.Tenant == tenant {
		return p, err
	}
	done, err := w.Store.BatchDone(ctx, tenant, id) // it says why not
	return store.Progress{Batch: id, Tenant: tenant, Recorded: math.MaxInt64, Done: done}, err
}
