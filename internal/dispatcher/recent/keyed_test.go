package recent

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestKeyedAsksOnce checks that concurrent callers of a key share one read, which continues after its first caller is
// gone.
func TestKeyedAsksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &Keyed[string, int]{Most: 100, Size: func(int) int64 { return 1 }, Age: time.Second, Thrift: 10}
		asked := map[string]int{}
		ask := func(ctx context.Context, key string) (int, error) {
			return m.Get(ctx, key, func(context.Context) (int, error) {
				asked[key]++
				time.Sleep(200 * time.Millisecond)
				return asked[key], nil
			})
		}
		hasty, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
		defer cancel()
		if _, err := ask(hasty, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				if v, err := ask(t.Context(), "a"); v != 1 || err != nil {
					t.Errorf("%d %v", v, err)
				}
			})
		}
		all.Wait()
		for after, want := range []int{1, 1, 2} { // the read took 200 ms, so the value lives for 2 s
			if v, err := ask(t.Context(), "a"); v != want || err != nil {
				t.Errorf("after %d s: %d %v", after, v, err)
			}
			time.Sleep(time.Second)
		}
		if v, err := ask(t.Context(), "b"); v != 1 || err != nil {
			t.Errorf("another: %d %v", v, err)
		}
		m.Forget()
		if v, err := ask(t.Context(), "b"); v != 2 || err != nil {
			t.Errorf("after it was forgotten: %d %v", v, err)
		}
	})
}

// TestKeyedIsBounded checks that the cached values have at most Most bytes, and that failures are not cached.
func TestKeyedIsBounded(t *testing.T) {
	t.Parallel()
	m := &Keyed[int, []byte]{Most: 10_000, Size: func(b []byte) int64 { return int64(len(b)) }, Age: time.Hour}
	asked := 0
	ask := func(key, size int) {
		t.Helper()
		if _, err := m.Get(t.Context(), key, func(context.Context) ([]byte, error) { asked++; return make([]byte, size), nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		ask(i, 100)
		ask(0, 100) // requested all the time
	}
	if asked != 1000 || m.bytes != 10_000 || len(m.of) != 100 || m.order.Len() != 100 {
		t.Errorf("%d questions; %d bytes of %d, %d", asked, m.bytes, len(m.of), m.order.Len())
	}
	if ask(-1, 10_001); m.bytes != 10_000 {
		t.Errorf("%d bytes with one that is too large", m.bytes)
	}
	bad := errors.New("down")
	for range 2 {
		if _, err := m.Get(t.Context(), -2, func(context.Context) ([]byte, error) { asked++; return nil, bad }); !errors.Is(err, bad) {
			t.Error(err)
		}
	}
	if asked != 1003 {
		t.Errorf("%d questions with two that failed", asked)
	}
}
