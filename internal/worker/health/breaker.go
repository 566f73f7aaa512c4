package health

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/job"
)

// BreakerAfter is after how many failures of ours in a row the breaker opens.
const BreakerAfter = 3

// Limits of the breaker.
const (
	breakerMax  = 15 * time.Second // longest pause
	breakerPast = time.Minute      // for how long a success counts
)

// A Breaker keeps a worker on which nothing works (containerd gone, disk full)
// from swallowing the queue: after failures of ours with a few jobs in a row it
// pauses the taking of jobs, longer each time, until one attempt succeeds.
// Dispatchers, who compare the workers, may order a longer rest.
//
// What one tenant's jobs meet with may be that tenant's doing: as long as those of
// another have succeeded lately, it is no reason for a rest.
type Breaker struct {
	mu        sync.Mutex
	failed    map[job.ID]string    // the jobs, and whose they are
	worked    map[string]time.Time // when one of a tenant succeeded
	until     time.Time
	ordered   time.Time // rest until then, whatever succeeds
	probation bool      // nothing has succeeded since
}

// OK notes that an attempt of a tenant's job succeeded.
func (b *Breaker) OK(tenant string) {
	b.mu.Lock()
	clear(b.failed)
	b.until = time.Time{}
	if b.worked == nil {
		b.worked = map[string]time.Time{}
	}
	b.worked[tenant] = time.Now()
	if time.Now().After(b.ordered) {
		b.probation = false
	}
	b.mu.Unlock()
}

// Quarantine stops the taking of jobs for d, as a dispatcher said.
func (b *Breaker) Quarantine(ctx context.Context, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Until(b.ordered) <= 0 {
		slog.WarnContext(ctx, "in quarantine: failures here stand out from those of other workers", "for", d)
	}
	b.ordered, b.probation = time.Now().Add(d), true
}

// Rest stops the taking of jobs for d from now on, for a reason that is not one of
// failures. It replaces what was ordered before: zero is the end of it.
func (b *Breaker) Rest(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ordered = time.Now().Add(d)
}

// Most is how many deliveries to ask for at once.
func (b *Breaker) Most() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probation {
		return 1
	}
	return math.MaxInt
}

// Fail counts a failure with a tenant's job and returns the pause that it causes.
func (b *Breaker) Fail(tenant string, id job.ID) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = map[job.ID]string{}
	}
	b.failed[id] = tenant
	if len(b.failed) < BreakerAfter || b.onlyTheirs() {
		return 0
	}
	d := min(100*time.Millisecond<<min(len(b.failed)-BreakerAfter, 10), breakerMax)
	b.until = time.Now().Add(d)
	return d
}

// onlyTheirs reports whether all that failed is one tenant's, while jobs of others
// succeed. The caller holds the lock.
func (b *Breaker) onlyTheirs() bool {
	whose := map[string]bool{}
	for _, tenant := range b.failed {
		whose[tenant] = true
	}
	if len(whose) > 1 {
		return false
	}
	lately := false
	for tenant, at := range b.worked {
		if time.Since(at) > breakerPast {
			delete(b.worked, tenant)
			continue
		}
		lately = lately || !whose[tenant]
	}
	return lately
}

// Closed reports whether jobs may be taken now, any number of them.
func (b *Breaker) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.probation && time.Until(b.until) <= 0 && time.Until(b.ordered) <= 0
}

// waitStep is how soon it is noticed that a rest is over before its time.
const waitStep = time.Second

// Wait returns when jobs may be taken, or ctx ends.
func (b *Breaker) Wait(ctx context.Context) {
	for ctx.Err() == nil {
		b.mu.Lock()
		left := max(time.Until(b.until), time.Until(b.ordered))
		b.mu.Unlock()
		if left <= 0 {
			return
		}
		pause.For(ctx, min(left, waitStep))
	}
}
