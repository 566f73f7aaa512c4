package worker

import (
	"context"
	"log/slog"
	"math"
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
// the taking of jobs, longer each time, until one attempt succeeds. Dispatchers,
// who compare the workers, may order a longer rest.
type breaker struct {
	mu        sync.Mutex
	failed    int
	until     time.Time
	ordered   time.Time // rest until then, whatever succeeds
	probation bool      // nothing has succeeded since
}

func (b *breaker) ok() {
	b.mu.Lock()
	b.failed, b.until = 0, time.Time{}
	if time.Now().After(b.ordered) {
		b.probation = false
	}
	b.mu.Unlock()
}

// quarantine stops the taking of jobs for d, as a dispatcher said.
func (b *breaker) quarantine(ctx context.Context, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Until(b.ordered) <= 0 {
		slog.WarnContext(ctx, "in quarantine: failures here stand out from those of other workers", "for", d)
	}
	b.ordered, b.probation = time.Now().Add(d), true
}

// most is how many deliveries to ask for at once.
func (b *breaker) most() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probation {
		return 1
	}
	return math.MaxInt
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

// closed reports whether jobs may be taken now, any number of them.
func (b *breaker) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.probation && time.Until(b.until) <= 0 && time.Until(b.ordered) <= 0
}

// wait returns when jobs may be taken, or ctx ends.
func (b *breaker) wait(ctx context.Context) {
	for ctx.Err() == nil {
		b.mu.Lock()
		left := max(time.Until(b.until), time.Until(b.ordered))
		b.mu.Unlock()
		if left <= 0 {
			return
		}
		pause(ctx, left)
	}
}
