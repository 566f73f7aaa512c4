package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// slowBatches is a store in which reading a batch takes a millisecond. Its tenant is the first letter of its id.
type slowBatches struct {
	store.Store
	statements, single atomic.Int64
}

func (s *slowBatches) BatchesByID(_ context.Context, ids []job.ID) (out []job.Batch, _ error) {
	s.statements.Add(1)
	time.Sleep(time.Duration(len(ids)) * time.Millisecond)
	for _, id := range ids {
		if id != "a-gone" {
			out = append(out, job.Batch{ID: id, Tenant: string(id[:1])})
		}
	}
	return out, nil
}

func (s *slowBatches) Batch(context.Context, string, job.ID) (*job.Batch, error) {
	s.single.Add(1)
	return nil, job.ErrGone
}

// TestWatchingManyBatches checks that ten thousand batches that a tenant reads at once cost some twenty statements,
// and that another tenant does not wait for them.
func TestWatchingManyBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowBatches{}
		w := Batches{Store: s}
		var all sync.WaitGroup
		for i := range 10_000 {
			all.Go(func() {
				id := job.ID(fmt.Sprint("a", i))
				if b, err := w.Batch(t.Context(), "a", id); err != nil || b.ID != id {
					t.Errorf("%v %v, want %s", b, err, id)
				}
			})
		}
		time.Sleep(time.Millisecond)
		start := time.Now()
		if b, err := w.Batch(t.Context(), "b", "b0"); err != nil || b.ID != "b0" || time.Since(start) > 100*time.Millisecond {
			t.Errorf("the other tenant: %v %v after %v", b, err, time.Since(start))
		}
		all.Wait()
		if n := s.statements.Load(); n > 10_000/gatherMost+5 {
			t.Errorf("%d statements", n)
		}
		for _, id := range []job.ID{"a-gone", "b0"} { // forgotten, and another tenant's
			if _, err := w.Batch(t.Context(), "a", id); !errors.Is(err, job.ErrGone) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if n := s.single.Load(); n != 2 {
			t.Errorf("%d were asked why", n)
		}
	})
}
