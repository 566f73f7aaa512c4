package dispatcher

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/placement"
)

const (
	// rememberClass is how long a class is announced after its last job.
	rememberClass = 10 * time.Minute
	// nameClasses is the period of announcements, for new workers and lost messages.
	nameClasses = 3 * time.Second
)

// classes tracks the job classes other than placement.Any, and announces them to the workers. A worker takes jobs
// from the classes it fits.
type classes struct {
	store   classStore
	bus     control.Bus
	workers *fleet.Fleet
	pools   placement.Pools
	log     *slog.Logger
	stale   atomic.Bool // jobs were queued since the last read

	mu     sync.Mutex
	queued []string // classes with queued jobs at the last read
	seen   map[string]time.Time
	told   time.Time
}

// classStore is the part of the store that classes uses.
type classStore interface {
	// Pools is store.Scheduler's: the classes of waiting jobs.
	Pools(ctx context.Context) ([]string, error)
}

func newClasses(s classStore, bus control.Bus, workers *fleet.Fleet, pools placement.Pools, log *slog.Logger) *classes {
	return &classes{store: s, bus: bus, workers: workers, pools: pools, log: log, seen: map[string]time.Time{}}
}

// refresh reads the classes of queued jobs, if jobs were queued since. After an error the known classes stay.
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

// note records classes, and announces them if one is new or nameClasses has passed.
func (c *classes) note(ctx context.Context, classes ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := false
	for _, class := range classes {
		if class == placement.Any {
			continue // open to all workers
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

// tell sends to each pool with workers the classes that are open to it.
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

// list returns the classes with queued jobs.
func (c *classes) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.queued)
}
