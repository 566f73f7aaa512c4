package artifact

import (
	"context"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"
)

// places is the weight of abreast.
func places() int64 { return int64(max(runtime.GOMAXPROCS(0)/2, 1)) }

// TestWaitingIsNoWork holds that a walk that waits for its turn, before it begins or behind a file,
// does not come closer to its limit.
func TestWaitingIsNoWork(t *testing.T) {
	roots, limits := []Root{{Path: "/out", Dir: many(t, 3, "")}}, Limits{Paths: []string{"/out/*"}, MaxBytes: 1 << 20, MaxFiles: 10, Time: 200 * time.Millisecond}
	occupy := func() {
		if err := abreast.Acquire(t.Context(), places()); err != nil {
			t.Error(err)
		}
		time.AfterFunc(400*time.Millisecond, func() { abreast.Release(places()) })
	}
	occupy()
	files := 0
	refused, err := Collect(t.Context(), roots, limits, func(context.Context, string, int64, io.Reader) error {
		if files++; files == 2 {
			occupy()
		}
		return nil
	})
	if err != nil || files != 3 || len(refused) > 0 {
		t.Errorf("%d files, refused %q, %v", files, refused, err)
	}
}

// TestWalksTakeTurns holds that a walk continues although longer ones occupy all places.
func TestWalksTakeTurns(t *testing.T) {
	pattern := "/out/"
	for range 100 {
		pattern += "[!b]*"
	}
	ctx, cancel := context.WithCancel(t.Context())
	var long sync.WaitGroup
	roots := []Root{{Path: "/out", Dir: many(t, 1000, "")}}
	for range places() + 1 {
		long.Go(func() {
			for ctx.Err() == nil {
				_, _ = Collect(ctx, roots, Limits{Paths: []string{pattern}, MaxFiles: 1}, nil)
			}
		})
	}
	small := []Root{{Path: "/out", Dir: many(t, 20, "")}}
	began := time.Now()
	refused, err := Collect(ctx, small, Limits{Paths: []string{"/out/*"}, MaxBytes: 1, MaxFiles: 20}, func(context.Context, string, int64, io.Reader) error { return nil })
	took := time.Since(began)
	cancel()
	long.Wait()
	if err != nil || len(refused) > 0 || took > 5*time.Second {
		t.Errorf("it took %v beside long walks: %q, %v", took, refused, err)
	}
}

// TestCanceledWalksLeave holds that a walk that is canceled while it waits frees no place that it does not have.
func TestCanceledWalksLeave(t *testing.T) {
	if err := abreast.Acquire(t.Context(), places()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := Collect(ctx, []Root{{Path: "/out", Dir: many(t, 1, "")}}, Limits{Paths: []string{"/out/*"}}, nil); err == nil {
		t.Error("it walked without a turn")
	}
	if abreast.TryAcquire(1) {
		t.Error("a place is free that was not")
	}
	abreast.Release(places())
}
