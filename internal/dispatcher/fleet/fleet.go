package fleet

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// Store is the part of the store that a Fleet uses.
type Store interface {
	store.Registry
	// Pools and PoolsOf are store.Scheduler's: the classes of waiting jobs.
	Pools(ctx context.Context) ([]string, error)
	PoolsOf(ctx context.Context, tenant string) ([]string, error)
}

// Config configures a Fleet.
type Config struct {
	Every time.Duration   // period of storing and reading workers; default 3s
	Pools placement.Pools // configured pools; workers may have others
	Log   *slog.Logger    // default: slog.Default
}

// Fleet is one dispatcher's view of the workers. It is safe for concurrent use.
type Fleet struct {
	store  Store
	every  time.Duration
	log    *slog.Logger
	pools  placement.Pools
	news   chan struct{} // holds one hint: refresh now
	grown  chan struct{} // holds one hint: others reported more slots
	health *health

	spoken atomic.Int64 // lowest protocol version of all known dispatchers
	turn   atomic.Uint64

	mu      sync.Mutex
	dirty   map[process]report    // reported since the last refresh
	members map[string]member     // changed by put
	sums    sums                  // of the members, by class
	rejoins time.Time             // end of the next quarantine; zero: none
	told    map[process]time.Time // last complaint about each refused process

	roster atomic.Pointer[roster]
	asked  recent.Value[struct{}] // reads the roster when Run does not
	past   recent.Value[map[string]bool]

	classes queued
}

// member is a worker's part of its pool.
type member struct {
	pool string
	Size
	offer    placement.Offer
	since    store.Incarnation // identifies the process
	rests    time.Time         // end of the quarantine
	cordoned bool              // by an operator
	draining bool              // about to stop
	load     store.WorkerLoad
	sessions int // live sessions on it
	heard    lastBeat

	shape   *shape // that counts it; nil: none
	key     string // of shape
	counted Size
}

// lastBeat is the last heartbeat of a worker that arrived here. Leases issued from now on are newer.
type lastBeat struct {
	at, startedAt time.Time
	beat          int64
}

// Size is how many jobs a worker or a pool runs at once.
type Size struct{ Slots, Free int }

// New returns a Fleet without workers. It reads them from the store on demand and in Run.
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

// Run refreshes the fleet and quarantines workers whose failures stand out, until ctx ends.
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

// Look makes Run refresh at once, after a change of workers in the store.
func (f *Fleet) Look() { offer(f.news) }

// Growth yields after a refresh that found more slots than were known here, or a lifted cordon.
func (f *Fleet) Growth() <-chan struct{} { return f.grown }

// Spoken returns the lowest protocol version of the connected dispatchers, at most control.Protocol.
func (f *Fleet) Spoken() int { return int(f.spoken.Load()) }

// offer puts a hint into a channel that holds one.
func offer(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // one is waiting
	}
}

// Refresh stores the reports that arrived here and reads the whole fleet. After an error the last state stays, and
// the next call stores the reports.
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

// count takes over the workers read from the store. It reports whether there are more slots than were known here, or
// a cordon was lifted.
func (f *Fleet) count(known map[string]member) (grown bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.dirty { // newer than the store
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
