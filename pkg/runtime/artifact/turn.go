package artifact

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"
)

// turnTime is how long a walk works before another one may continue.
const turnTime = 5 * time.Millisecond

// abreast limits the walks that work at the same time to half of the cores. The worker needs the
// others for the jobs of other tenants: patterns keep a core busy for seconds.
var abreast = semaphore.NewWeighted(int64(max(runtime.GOMAXPROCS(0)/2, 1)))

// turn is the part of a walk in abreast. Waiting for it does not count as time of the walk. Only
// one goroutine may use it.
type turn struct {
	ctx    context.Context // of the caller of Collect
	held   bool
	began  time.Time
	waited time.Duration
	limit  *time.Timer // ends the walk; nil: no limit
	end    time.Time   // when limit does
}

// enter waits for the first turn and calls late after a walk of this time; 0: never.
func (t *turn) enter(ctx context.Context, most time.Duration, late func()) error {
	t.ctx = ctx
	if err := abreast.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	t.held, t.began = true, time.Now()
	if most > 0 {
		t.end = t.began.Add(most)
		t.limit = time.AfterFunc(most, late)
	}
	return nil
}

// exit ends the last turn.
func (t *turn) exit() {
	if t.limit != nil {
		t.limit.Stop()
	}
	t.leave()
}

// over reports whether the turn has lasted long enough.
func (t *turn) over() bool { return time.Since(t.began) > turnTime }

func (t *turn) leave() {
	if t.held {
		abreast.Release(1)
	}
	t.held = false
}

// take waits for the next turn. There is none if the caller's context ends, or if the limit has
// been reached: then the walk is about to end.
func (t *turn) take() {
	if abreast.TryAcquire(1) {
		t.held, t.began = true, time.Now()
		return
	}
	if t.limit != nil && !t.limit.Stop() {
		return
	}
	began := time.Now()
	t.held = abreast.Acquire(t.ctx, 1) == nil
	t.began = time.Now()
	waited := t.began.Sub(began)
	t.waited += waited
	if t.limit != nil {
		t.end = t.end.Add(waited)
		t.limit.Reset(t.end.Sub(t.began))
	}
}
