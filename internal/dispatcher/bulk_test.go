package dispatcher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// calls records the calls of a bulk, each of which takes a second.
type calls struct {
	mu   sync.Mutex
	made [][]int
	fail func([]int) error
}

func (c *calls) call(_ context.Context, in []int) ([]int, error) {
	time.Sleep(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, slices.Clone(in))
	if c.fail != nil {
		if err := c.fail(in); err != nil {
			return nil, err
		}
	}
	out := make([]int, len(in))
	for i, v := range in {
		out[i] = 10 * v
	}
	return out, nil
}

// bulkTest runs a bulk in a synctest bubble.
func bulkTest(t *testing.T, limit int, c *calls, f func(*testing.T, *bulk[int, int])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBulk(limit, 1, c.call)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.run(ctx); close(done) }()
		f(t, b)
		cancel()
		<-done
	})
}

func TestBulkGathers(t *testing.T) {
	t.Parallel()
	c := &calls{}
	bulkTest(t, 4, c, func(t *testing.T, b *bulk[int, int]) {
		var wg sync.WaitGroup
		start := time.Now()
		ask := func(in ...int) {
			wg.Go(func() {
				out, err := b.do(t.Context(), in)
				if err != nil || len(out) != len(in) {
					t.Errorf("do(%v) = %v, %v", in, out, err)
					return
				}
				for i, v := range in {
					if out[i] != 10*v {
						t.Errorf("do(%v) = %v: somebody else's answer", in, out)
					}
				}
			})
			synctest.Wait()
		}
		ask(1) // alone: called at once
		ask(2, 3)
		ask(4)
		ask(5, 6, 7, 8, 9) // fills the second call above its limit rather than being split
		ask(10)
		wg.Wait()
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v, want three calls of a second", took)
		}
		if out, err := b.do(t.Context(), nil); out != nil || err != nil {
			t.Errorf("nothing yields %v, %v", out, err)
		}
	})
	want := [][]int{{1}, {2, 3, 4, 5, 6, 7, 8, 9}, {10}}
	if !slices.EqualFunc(c.made, want, slices.Equal) {
		t.Errorf("calls %v, want %v", c.made, want)
	}
}

// TestBulkErrors checks that invalid input fails only its own caller, and that an outage fails all callers with one
// call.
func TestBulkErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err          error
		calls, fails int
	}{{job.ErrInvalid, 5, 1}, {job.ErrUnavailable, 2, 3}} {
		c := &calls{fail: func(in []int) error {
			if slices.Contains(in, 3) {
				return test.err
			}
			return nil
		}}
		fails := 0
		bulkTest(t, 10, c, func(t *testing.T, b *bulk[int, int]) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for i := range 4 {
				wg.Go(func() {
					_, err := b.do(t.Context(), []int{i + 1})
					mu.Lock()
					defer mu.Unlock()
					if errors.Is(err, test.err) {
						fails++
					}
				})
				synctest.Wait()
			}
			wg.Wait()
		})
		if len(c.made) != test.calls || fails != test.fails {
			t.Errorf("%v: %d calls and %d failures, want %d and %d", test.err, len(c.made), fails, test.calls, test.fails)
		}
	}
}

// TestBulkForgets checks that input of callers that are gone is dropped.
func TestBulkForgets(t *testing.T) {
	t.Parallel()
	c := &calls{}
	bulkTest(t, 10, c, func(t *testing.T, b *bulk[int, int]) {
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = b.do(t.Context(), []int{1}) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := b.do(ctx, []int{2}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		_, _ = b.do(t.Context(), []int{3})
		wg.Wait()
	})
	if want := [][]int{{1}, {3}}; !slices.EqualFunc(c.made, want, slices.Equal) {
		t.Errorf("calls %v, want %v", c.made, want)
	}
}

// TestBulkBoundsBytes checks that a call has at most maxBytes, that no input is skipped, and that larger input has
// its own lane.
func TestBulkBoundsBytes(t *testing.T) {
	t.Parallel()
	c := &calls{}
	synctest.Test(t, func(t *testing.T) {
		b := newBulk(100, 1, c.call).bounded(10, func(in int) int { return in })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.run(ctx); close(done) }()
		start := time.Now()
		took := map[int]time.Duration{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, in := range [][]int{{1}, {4, 2}, {3}, {8}, {2}, {50}, {60}, {9, 9}} { // 1 is running, the others gather
			wg.Go(func() {
				out, err := b.do(t.Context(), in)
				if err != nil || len(out) != len(in) || out[0] != 10*in[0] {
					t.Errorf("do(%v) = %v, %v", in, out, err)
				}
				mu.Lock()
				defer mu.Unlock()
				took[in[0]] = time.Since(start)
			})
			synctest.Wait()
		}
		wg.Wait()
		// Calls of a second: 1, then 4+2+3, then 8+2; in the other lane 50, 60 and 9+9 alone.
		for in, want := range map[int]time.Duration{1: 1, 4: 2, 3: 2, 8: 3, 2: 3, 50: 1, 60: 2, 9: 3} {
			if took[in] != want*time.Second {
				t.Errorf("%d took %v, want %ds", in, took[in], want)
			}
		}
		cancel()
		<-done
	})
	for _, call := range c.made {
		sum := 0
		for _, in := range call {
			sum += in
		}
		if sum > 10 && len(call) > 2 {
			t.Errorf("call of %v has more than 10 bytes", call)
		}
	}
}

// TestBulkOfLargeOnesForgets checks that large input is dropped if its caller is gone.
func TestBulkOfLargeOnesForgets(t *testing.T) {
	t.Parallel()
	c := &calls{}
	synctest.Test(t, func(t *testing.T) {
		b := newBulk(100, 1, c.call).bounded(10, func(in int) int { return in })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.run(ctx); close(done) }()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = b.do(t.Context(), []int{50}) })
		synctest.Wait()
		soon, end := context.WithTimeout(t.Context(), time.Millisecond)
		defer end()
		if _, err := b.do(soon, []int{60}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		wg.Wait()
		if out, err := b.do(t.Context(), []int{3}); err != nil || out[0] != 30 {
			t.Errorf("a small one after it: %v, %v", out, err)
		}
		cancel()
		<-done
	})
	if want := [][]int{{50}, {3}}; !slices.EqualFunc(c.made, want, slices.Equal) {
		t.Errorf("calls %v, want %v", c.made, want)
	}
}

// TestOldWorkersGetAllSpecs checks that a worker that does not repeat partial claims gets all specs in one answer.
func TestOldWorkersGetAllSpecs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rounds := 0
		r := &recorder{claims: newBulk(100, 1, func(_ context.Context, claims []store.Claim) ([]store.Claimed, error) {
			rounds++
			out := make([]store.Claimed, len(claims))
			for i, c := range claims {
				if out[i].Ref = c.Ref; c.Generation == 0 {
					continue // refused
				}
				out[i].Lease = job.Lease(c.Generation)
				if i < 2 {
					out[i].Spec = []byte(c.Job)
				}
			}
			return out, nil
		})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.claims.run(ctx); close(done) }()
		var claims []store.Claim
		for i := range 7 {
			claims = append(claims, store.Claim{Ref: store.Ref{Job: job.NewID(), Generation: job.Generation(i)}})
		}
		claimed, err := r.claims.do(ctx, claims)
		if err != nil || countGranted(claimed) >= 6 {
			t.Fatalf("%d granted at once, %v", countGranted(claimed), err)
		}
		if err := r.complete(ctx, claims, claimed); err != nil {
			t.Fatal(err)
		}
		for i, c := range claimed {
			if c.Ref != claims[i].Ref || c.Lease != job.Lease(i) || i > 0 && string(c.Spec) != string(c.Job) {
				t.Errorf("%d: %+v", i, c)
			}
		}
		if rounds > 4 {
			t.Errorf("%d rounds", rounds)
		}
		cancel()
		<-done
	})
}
