package recent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRecent checks that concurrent callers share one read. While the database does not answer, the old value is
// used, and only the first callers wait.
func TestRecent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var slow, broken atomic.Bool
		m := &Value[int64]{Age: 2 * time.Second, Read: func(ctx context.Context) (int64, error) {
			n := asked.Add(1)
			if slow.Load() {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			if broken.Load() {
				return 0, errors.New("down")
			}
			time.Sleep(10 * time.Millisecond)
			return n, nil
		}}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if v, known, err := m.Get(t.Context()); v != 1 || !known || err != nil {
					t.Errorf("%d %v %v", v, known, err)
				}
			})
		}
		all.Wait()
		if n := asked.Load(); n != 1 {
			t.Fatalf("a hundred asked %d times", n)
		}

		// A database that does not answer. Each of the thousand once waited 2 s.
		slow.Store(true)
		time.Sleep(3 * time.Second)
		start := time.Now()
		for range 1000 {
			if v, known, _ := m.Get(t.Context()); v != 1 || !known {
				t.Fatalf("%d %v", v, known)
			}
		}
		if took := time.Since(start); took > staleAfter {
			t.Errorf("a thousand took %v", took)
		}
		time.Sleep(askFor)
		start = time.Now()
		if v, known, err := m.Get(t.Context()); v != 1 || !known || err == nil || time.Since(start) != 0 {
			t.Errorf("after the failure: %d %v %v in %v", v, known, err, time.Since(start))
		}

		slow.Store(false)
		broken.Store(true)
		time.Sleep(3 * time.Second)
		if v, known, err := m.Get(t.Context()); v != 1 || !known || err == nil {
			t.Errorf("while it fails: %d %v %v", v, known, err)
		}
		before := asked.Load()
		for range 100 {
			_, _, _ = m.Get(t.Context())
		}
		if n := asked.Load(); n != before {
			t.Errorf("a failure is forgotten: %d more questions", n-before)
		}
		broken.Store(false)
		time.Sleep(3 * time.Second)
		if v, known, err := m.Get(t.Context()); v != asked.Load() || !known || err != nil {
			t.Errorf("when it is back: %d %v %v", v, known, err)
		}
	})
}

// TestRecentNothing checks that without a value a caller waits until its own timeout.
func TestRecentNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &Value[int]{Read: func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, known, err := m.Get(ctx); known || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v %v", known, err)
		}
		time.Sleep(askFor)
	})
}
