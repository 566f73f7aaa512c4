package fleet

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/recent"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// Store is where dispatchers write down the workers that they hear of.
type Store interface {
	store.Registry
	// Pools and PoolsOf are store.Scheduler's: the classes of jobs that wait.
	Pools(ctx context.Context) ([]string, error)
	PoolsOf(ctx context.Context, tenant string) ([]string, error)
}

// Config is how a Fleet behaves.
type Config struct {
	Every time.Duration   // how often workers are written down and counted; default 3s
	Pools placement.Pools // what is said of pools; workers have others, too
	Log   *slog.Logger    // default: slog's
}

// Fleet is the workers, as one dispatcher knows them. It is safe for concurrent use.
type Fleet struct {
	store  Store
	every  time.Duration
	log    *slog.Logger
	pools  placement.Pools
	news   chan struct{} // holds one hint: somebody should know at once
	grown  chan struct{} // holds one: others have reported more slots
	health *health

	spoken atomic.Int64 // the lowest version of the protocol of all dispatchers, as far as is known
	turn   atomic.Uint64

	mu      sync.Mutex
	dirty   map[process]report    // reported since the last refresh
	members map[string]member     // changed by put
	sums    sums                  // of the members, by class
	rejoins time.Time             // when the next quarantine ends; zero: there is none
	told    map[process]time.Time // when those that are refused were last complained of

	roster atomic.Pointer[roster]
	asked  recent.Value[struct{}] // reads the roster where Run does not
	past   recent.Value[map[string]bool]

	classes queued
}

// member is what a worker adds to its pool.
type member struct {
	pool string
	Size
	offer    placement.Offer
	since    store.Incarnation // which process it is
	rests    time.Time         // in quarantine until then
	cordoned bool              // by an operator
	draining bool              // it is about to stop
	load     store.WorkerLoad
	sessions int // that are alive on it
	heard    heard

	shape   *shape // in which the sums count it; nil: they do not
	key     string // of shape
	counted Size
}

// heard is the last heartbeat of a worker that arrived here: leases that are issued
// now are younger.
type heard struct {
	at, startedAt time.Time
	beat          int64
}

// Size is how many jobs a worker, or a pool, takes at once.
type Size struct{ Slots, Free int }

// New returns a Fleet. It knows nothing until it is asked, told of heartbeats, or run.
func New(c Config, s Store) *Fleet {
	if c.Every == 0 {
		c.Every = 3 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	f := &Fleet{store: s, every: c.Every, log: c.Log, pools: c.Pools, health: newHealth(),
		news: make(chan struct{}, 1), grown: make(chan struct{}, 1),
		dirty: map[process]report{}, members: map[string]member{}, sums: newSums(), told: map[process]time.Time{}}
	f.asked = recent.Value[struct{}]{Age: freshFor, Read: func(ctx context.Context) (struct{}, error) { return struct{}{}, f.Refresh(ctx) }}
	f.past = recent.Value[map[string]bool]{Age: freshFor, Read: f.lookBack}
	f.classes = newQueued(s)
	return f
}

// Run keeps the count up to date and has workers whose failures stand out rest, until ctx ends.
func (f *Fleet) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { f.refreshing(ctx) })
	loops.Go(func() { f.quarantine(ctx) })
	loops.Wait()
}

func (f *Fleet) refreshing(ctx context.Context) {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		select {
		case <-f.news:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := f.Refresh(ctx); err != nil && ctx.Err() == nil {
			f.log.WarnContext(ctx, "worker registry not refreshed", "error", err)
		}
	}
}

// Look says that what the store has of workers has changed: Run reads it at once.
func (f *Fleet) Look() { offer(f.news) }

// Grown yields after others have reported more slots than were known here.
func (f *Fleet) Grown() <-chan struct{} { return f.grown }

// Spoken is the lowest version of the protocol that a connected dispatcher speaks.
func (f *Fleet) Spoken() int { return int(f.spoken.Load()) }

// offer puts a hint into a channel that holds one.
func offer(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // one is waiting
	}
}

// Refresh writes down who reported here and counts the whole fleet. After an
// error the last count stands, and who reported is written down next time.
func (f *Fleet) Refresh(ctx context.Context) error {
	if err := f.writeDown(ctx); err != nil {
		return err
	}
	ws, err := f.store.Workers(ctx, Connected)
	if err != nil {
		return err
	}
	spoken, err := f.store.Spoken(ctx)
	if err != nil {
		return err
	}
	f.spoken.Store(int64(min(spoken, control.Protocol)))
	known := make(map[string]member, len(ws))
	for _, w := range ws {
		known[w.ID] = f.memberOf(w)
	}
	f.enroll(ws, known)
	if f.count(known) {
		offer(f.grown)
	}
	return nil
}

// count takes over what the store knows of the fleet, and reports whether it is
// larger than was known here.
func (f *Fleet) count(known map[string]member) (grown bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.dirty { // newer than what the store has
		if m := f.members[p.worker]; m.since == p.since && known[p.worker].since <= p.since {
			m.rests, m.cordoned = known[p.worker].rests, known[p.worker].cordoned
			known[p.worker] = m
		}
	}
	for id, m := range known {
		before := f.members[id]
		if before.since == m.since {
			m.heard = before.heard
		}
		known[id] = m
		grown = grown || m.Slots > before.Slots || before.cordoned && !m.cordoned
	}
	for id, m := range f.members {
		if _, still := known[id]; !still {
			f.sums.remove(&m)
			delete(f.members, id)
		}
	}
	for id, m := range known {
		f.put(id, m)
	}
	return grown
}
