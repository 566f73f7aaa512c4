package share

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// TestTurns checks that at most as many reads as turns run at once, and that the tenant with the fewest goes next. A
// read that waits too long gets a retry time.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := NewTurns(2)
		var under, most, refused, done atomic.Int64
		read := func() error {
			most.Store(max(most.Load(), under.Add(1)))
			defer under.Add(-1)
			time.Sleep(time.Second)
			done.Add(1)
			return nil
		}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				err := reads.Do(t.Context(), "mean", read)
				if p := api.NewProblem(err); err != nil && (p.Status != 429 || RetryAfter(err) != 1) {
					t.Errorf("%+v", p)
				}
				if err != nil {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if err := reads.Do(t.Context(), "kind", read); err != nil {
			t.Errorf("the other tenant: %v", err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the other tenant waited behind the first: %v", took)
		}
		all.Wait()
		if most.Load() != 2 {
			t.Errorf("%d at once, want 2", most.Load())
		}
		if done.Load() < 10 || done.Load()+refused.Load() != 65 {
			t.Errorf("%d read, %d refused", done.Load(), refused.Load())
		}
		if reads.all != 0 || len(reads.held) != 0 || len(reads.queue) != 0 {
			t.Errorf("left behind: %+v", reads)
		}
	})
}

// TestTurnsHaveAnEnd checks that the number of waiting reads is bounded, and that a canceled read takes no turn.
func TestTurnsHaveAnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := NewTurns(1)
		if err := reads.take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var left sync.WaitGroup
		for range waitingReads {
			left.Go(func() {
				if err := reads.take(ctx, "a"); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if err := reads.take(t.Context(), "a"); !errors.Is(err, job.ErrTooMany) || time.Since(start) != 0 {
			t.Errorf("one too many: %v after %v", err, time.Since(start))
		}
		cancel()
		left.Wait()
		reads.give("a")
		if err := reads.take(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	})
}
