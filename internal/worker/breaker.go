package worker

import (
	"context"
	"sync"
	"time"
)

// Limits of the breaker.
const (
	breakerAfter = 3                // failures of ours in a row before it opens
	breakerMax   = 15 * time.Second // longest pause
)

// A breaker keeps a worker on which nothing works (containerd gone, disk full)
// from swallowing the queue: after a few failures of ours in a row it pauses
// the taking of jobs, longer each time, until one attempt succeeds.
type breaker struct {
	mu     sync.Mutex
	failed int
	until  time.Time
}

func (b *breaker) ok() {
	b.mu.Lock()
	b.failed, b.until = 0, time.Time{}
	b.mu.Unlock()
}

// fail counts a failure and returns the pause that it causes.
func (b *breaker) fail() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed++
	if b.failed < breakerAfter {
		return 0
	}
	d := min(100*time.Millisecond<<min(b.failed-breakerAfter, 10), breakerMax)
	b.until = time.Now().Add(d)
	return d
}

// wait returns when jobs may be taken, or ctx ends.
func (b *breaker) wait(ctx context.Context) {
	for ctx.Err() == nil {
		b.mu.Lock()
		left := time.Until(b.until)
		b.mu.Unlock()
		if left <= 0 {
			return
		}
		pause(ctx, left)
	}
}
