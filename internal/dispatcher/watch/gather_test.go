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
)

// TestGather checks that ten thousand callers with different keys need few queries, and that a single caller gets an answer
// at once. No answer is older than its request.
func TestGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var state, questions, most atomic.Int64
		g := newGather(func(_ context.Context, ids []job.ID) (map[job.ID]int64, error) {
			now := state.Load()
			questions.Add(1)
			most.Store(max(most.Load(), int64(len(ids))))
			time.Sleep(2 * time.Millisecond)
			found := map[job.ID]int64{}
			for _, id := range ids {
				if id != "none" {
					found[id] = now
				}
			}
			return found, nil
		})
		for range 16 {
			start := time.Now()
			if _, found, err := g.get(t.Context(), "a"); !found || err != nil || time.Since(start) > 2*time.Millisecond {
				t.Fatalf("alone: %v %v after %v", found, err, time.Since(start))
			}
		}
		if _, found, err := g.get(t.Context(), "none"); found || err != nil {
			t.Errorf("what is not there: %v %v", found, err)
		}
		time.Sleep(time.Minute)
		questions.Store(0)
		var watchers sync.WaitGroup
		for i := range 10_000 {
			watchers.Go(func() {
				for range 10 {
					time.Sleep(time.Second + time.Duration(i)*time.Microsecond)
					at := state.Add(1)
					if v, found, err := g.get(t.Context(), job.ID(fmt.Sprint("b", i))); !found || err != nil || v < at {
						t.Errorf("answered with %d, %v, %v to a question of %d", v, found, err, at)
						return
					}
				}
			})
		}
		watchers.Wait()
		if n := questions.Load(); n > 1500 {
			t.Errorf("%d questions for 100,000 looks in some 10 s", n)
		}
		if n := most.Load(); n > gatherMost {
			t.Errorf("%d things in one question", n)
		}
	})
}

// TestGatherFails checks that an error is for one round of callers, and that a canceled caller returns.
func TestGatherFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		g := newGather(func(context.Context, []job.ID) (map[job.ID]int, error) {
			time.Sleep(time.Second)
			return nil, down
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := g.get(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, _, err := g.get(t.Context(), "a"); !errors.Is(err, down) {
			t.Error(err)
		}
	})
}
