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

// BreakerAfter is how many jobs in a row have to fail before the circuit breaker opens.
const BreakerAfter = 3

// Limits of the breaker.
const (
	breakerMax  = 15 * time.Second // longest pause
	breakerPast = time.Minute      // how long a success counts
)

// A Breaker is a circuit breaker. It keeps a worker that fails every job (containerd is
// gone, the disk is full) from emptying the queue: after failures with a few jobs in a row
// the worker pauses, longer each time, until one attempt succeeds. Dispatchers, which
// compare workers, may order a longer rest.
//
// Jobs can fail because of their content, so failures alone are no proof. The breaker stays closed,
// or closes again, in two cases:
//
//   - a job of a tenant without failed jobs has succeeded lately;
//   - Prove succeeds: it runs a canary job, on which no client has any influence.
type Breaker struct {
	// Prove runs a canary job in the way that failed. Nil: there is no canary.
	Prove func(way string) error

	mu        sync.Mutex
	failed    map[job.ID]string    // tenant of each failed job
	worked    map[string]time.Time // last success of each tenant
	until     time.Time
	ordered   time.Time // rest until then, regardless of successes
	probation bool      // since a quarantine, until a success
	proving   bool
}

// OK records that an attempt of a tenant's job succeeded.
func (b *Breaker) OK(tenant string) {
	b.mu.Lock()
	b.close()
	if b.worked == nil {
		b.worked = map[string]time.Time{}
	}
	b.worked[tenant] = time.Now()
	if time.Now().After(b.ordered) {
		b.probation = false
	}
	b.mu.Unlock()
}

// close clears the failures. The caller holds the lock.
func (b *Breaker) close() {
	clear(b.failed)
	b.until = time.Time{}
}

// Quarantine stops the taking of jobs for d, on a dispatcher's order.
func (b *Breaker) Quarantine(ctx context.Context, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Until(b.ordered) <= 0 {
		slog.WarnContext(ctx, "quarantine ordered; not taking jobs", "for", d)
	}
	b.ordered, b.probation = time.Now().Add(d), true
}

// Rest stops the taking of jobs for d from now on, for a reason other than failures. It replaces
// the previous order: zero ends it.
func (b *Breaker) Rest(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ordered = time.Now().Add(d)
}

// Most returns how many deliveries may be requested at once.
func (b *Breaker) Most() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probation {
		return 1
	}
	return math.MaxInt
}

// Fail counts a failure with a tenant's job and returns the resulting pause. The way names the
// failed part for Prove, such as an isolation. "" is a failure that no canary job would meet.
func (b *Breaker) Fail(tenant string, id job.ID, way string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = map[job.ID]string{}
	}
	b.failed[id] = tenant
	if len(b.failed) < BreakerAfter || b.othersSucceed() {
		return 0
	}
	d := min(100*time.Millisecond<<min(len(b.failed)-BreakerAfter, 10), breakerMax)
	b.until = time.Now().Add(d)
	if b.Prove != nil && way != "" && !b.proving {
		b.proving = true
		go b.prove(way)
	}
	return d
}

// prove closes the breaker if a canary job succeeds: then the jobs themselves were at fault.
func (b *Breaker) prove(way string) {
	err := b.Prove(way)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.proving = false
	if err != nil {
		slog.Warn("canary job failed; circuit breaker stays open", "isolation", way, "error", err)
		return
	}
	slog.Info("canary job succeeded; circuit breaker closed", "isolation", way, "failed_jobs", len(b.failed))
	b.close()
}

// othersSucceed reports whether a job of a tenant without failed jobs has succeeded lately. The
// caller holds the lock.
func (b *Breaker) othersSucceed() bool {
	failing := map[string]bool{}
	for _, tenant := range b.failed {
		failing[tenant] = true
	}
	lately := false
	for tenant, at := range b.worked {
		if time.Since(at) > breakerPast {
			delete(b.worked, tenant)
			continue
		}
		lately = lately || !failing[tenant]
	}
	return lately
}

// Closed reports whether any number of jobs may be taken now.
func (b *Breaker) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.probation && time.Until(b.until) <= 0 && time.Until(b.ordered) <= 0
}

// waitStep is how often Wait checks whether a rest has ended early.
const waitStep = time.Second

// Wait returns when jobs may be taken, or when ctx ends.
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
