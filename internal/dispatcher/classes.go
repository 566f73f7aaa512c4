package dispatcher

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/placement"
)

const (
	// rememberClass is for how long a class is named after the last job of it was
	// seen.
	rememberClass = 10 * time.Minute
	// nameClasses is how often workers are told again: those that have just come,
	// and those that did not hear.
	nameClasses = 3 * time.Second
)

// classes knows which classes of jobs there are besides that of jobs that any worker may
// run, and tells the workers, who take from those that they fit.
type classes struct {
	store   classStore
	bus     control.Bus
	workers *fleet.Fleet
	pools   placement.Pools
	log     *slog.Logger
	stale   atomic.Bool // something was queued since the last look

	mu     sync.Mutex
	queued []string // those with queued jobs, at the last look
	seen   map[string]time.Time
	told   time.Time
}

// classStore is what classes need of the store.
type classStore interface {
	// Pools is store.Scheduler's: the classes of the jobs that wait.
	Pools(ctx context.Context) ([]string, error)
}

func newClasses(s classStore, bus control.Bus, workers *fleet.Fleet, pools placement.Pools, log *slog.Logger) *classes {
	return &classes{store: s, bus: bus, workers: workers, pools: pools, log: log, seen: map[string]time.Time{}}
}

// refresh looks into the queue if something was queued. After an error the
// classes known so far stand.
func (c *classes) refresh(ctx context.Context) {
	if !c.stale.Swap(false) {
		return
	}
	queued, err := c.store.Pools(ctx)
	if err != nil {
		c.stale.Store(true)
		c.log.WarnContext(ctx, "job classes not read", "error", err)
		return
	}
	c.note(ctx, queued...)
	special := slices.DeleteFunc(queued, func(class string) bool { return class == placement.Any })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued = special
}

// note remembers classes and tells the workers of new ones.
func (c *classes) note(ctx context.Context, classes ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := false
	for _, class := range classes {
		if class == placement.Any {
			continue // all workers know it
		}
		_, known := c.seen[class]
		fresh = fresh || !known
		c.seen[class] = time.Now()
	}
	if !fresh && (len(c.seen) == 0 || time.Since(c.told) < nameClasses) {
		return
	}
	maps.DeleteFunc(c.seen, func(_ string, at time.Time) bool { return time.Since(at) > rememberClass })
	c.told = time.Now()
	if err := c.tell(slices.Sorted(maps.Keys(c.seen))); err != nil {
		c.log.WarnContext(ctx, "job classes not sent; retrying", "error", err)
	}
}

// tell names to each pool that has workers the classes that it may take.
func (c *classes) tell(all []string) error {
	for pool := range c.workers.Sizes() {
		offer := placement.Offer{Exclusive: c.pools.Exclusive(pool)}
		var its []string
		for _, class := range all {
			if offer.Open(pool, placement.ParseClass(class)) {
				its = append(its, class)
			}
		}
		if len(its) == 0 {
			continue
		}
		if err := c.bus.SendClasses(pool, its); err != nil {
			return err
		}
	}
	return nil
}

// list returns the classes that are worth a look.
func (c *classes) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.queued)
}
