package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// A worker that was silent for so long does not widen the window any more.
const workerSilence = 20 * time.Second

// complainEvery is how often it is said that a worker is refused.
const complainEvery = time.Minute

// registry knows the workers of the fleet: those whose heartbeats arrive here,
// and, through the store, those whose heartbeats reach other dispatchers.
type registry struct {
	store store.Registry
	every time.Duration
	log   *slog.Logger
	pools placement.Pools // what is said of them; workers have others, too
	news  chan struct{}   // holds one hint: somebody should know at once
	grown func()          // called when others have reported more slots; optional

	spoken atomic.Int64 // the lowest version of the protocol of all dispatchers, as far as is known

	mu    sync.Mutex
	dirty map[process]report // reported since the last refresh
	known map[string]member
	told  map[process]time.Time // when those that are refused were last complained of
}

// process is one of those that have had a worker's name.
type process struct {
	worker string
	since  store.Incarnation
}

// report is what a process said of itself, and when.
type report struct {
	queue.WorkerInfo
	at time.Time
}

// member is what a worker adds to its pool.
type member struct {
	pool string
	size
	offer placement.Offer
	since store.Incarnation // which process it is
	rests time.Time         // in quarantine until then
	apart bool              // cordoned off by an operator
	heard heard
}

// heard is the last heartbeat of a worker that arrived here: leases that are issued
// now are younger.
type heard struct {
	at, startedAt time.Time
	beat          int64
}

// size is how many jobs a worker, or a pool, takes at once.
type size struct{ slots, free int }

func newRegistry(cfg Config, s store.Registry) *registry {
	return &registry{store: s, every: cfg.RegistryEvery, log: cfg.Log, pools: cfg.Pools, news: make(chan struct{}, 1),
		dirty: map[process]report{}, known: map[string]member{}, told: map[process]time.Time{}}
}

// seen notes a heartbeat. It reports whether the fleet has grown by it.
func (r *registry) seen(w queue.WorkerInfo) (grown bool) {
	w.Offer.Exclusive = r.pools.Exclusive(w.Pool)
	p := process{w.ID, store.IncarnationOf(w.StartedAt)}
	r.mu.Lock()
	r.dirty[p] = report{w, time.Now()}
	before, known := r.known[w.ID]
	if known && p.since < before.since {
		r.mu.Unlock()
		return false // refused
	}
	m := memberOf(w.Pool, w.Slots, busy(w.Slots, w.Busy, w.Held), w.Draining, w.Offer)
	m.since, m.rests, m.apart, m.heard = p.since, before.rests, before.apart, heard{time.Now(), w.StartedAt, w.Beat}
	r.known[w.ID] = m
	r.mu.Unlock()
	if w.Protocol > queue.Protocol && (!known || before.since != m.since) {
		r.log.Warn("a worker is of a newer release: upgrade dispatchers first", "worker", w.ID, "version", w.Version, "speaks", w.Protocol, "here", queue.Protocol)
	}
	if !known || before.slots != m.slots || before.since != m.since {
		select {
		case r.news <- struct{}{}:
		default: // one is waiting
		}
	}
	return m.slots > before.slots
}

// refuses returns the start of the process that has a worker's name, if that is not the
// one that asks but a younger one, which was heard of lately. Who does not say which it
// is (0) is believed.
func (r *registry) refuses(worker string, since store.Incarnation) (owner store.Incarnation, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner = r.known[worker].since
	return owner, since != 0 && since < owner
}

// complain reports whether it is time to say that a process is refused, which is now
// and then.
func (r *registry) complain(worker string, since store.Incarnation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := process{worker, since}
	for old, at := range r.told { // few
		if time.Since(at) > complainEvery {
			delete(r.told, old)
		}
	}
	if _, told := r.told[p]; told {
		return false
	}
	r.told[p] = time.Now()
	return true
}

// busy counts the slots that take nothing now: all of them, if the worker is held
// back.
func busy(slots, busy int, held string) int {
	if held != "" {
		return slots
	}
	return busy
}

func memberOf(pool string, slots, busy int, draining bool, offer placement.Offer) member {
	if draining {
		return member{pool: pool}
	}
	return member{pool: pool, size: size{slots, max(slots-busy, 0)}, offer: offer}
}

// sizes returns the size of each pool that has a worker.
func (r *registry) sizes() map[string]size {
	r.mu.Lock()
	defer r.mu.Unlock()
	pools := map[string]size{}
	for _, m := range r.known {
		p := pools[m.pool]
		pools[m.pool] = size{p.slots + m.slots, p.free + m.free}
	}
	return pools
}

// poolOf returns the pool of a worker; "": it is not known here.
func (r *registry) poolOf(worker string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[worker].pool
}

// crew is the workers that may run the jobs of some classes.
type crew struct {
	classes []string
	pools   []string // that they are of
	size
}

// crews returns who may run the jobs of the classes, where there is anybody: those
// with the same workers are together.
func (r *registry) crews(classes ...string) []crew {
	needs := make([]placement.Need, len(classes))
	for i, c := range classes {
		needs[i] = placement.ParseClass(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	members := slices.Collect(maps.Values(r.known))
	var crews []*crew
	known := map[string]*crew{} // by their members
	for i, n := range needs {
		c, who := crewFor(n, members)
		if c.slots == 0 {
			continue
		}
		if known[who] == nil {
			known[who] = c
			crews = append(crews, c)
		}
		known[who].classes = append(known[who].classes, classes[i])
	}
	out := make([]crew, len(crews))
	for i, c := range crews {
		out[i] = *c
	}
	return out
}

// crew is crews of one class.
func (r *registry) crew(class string) crew {
	if cs := r.crews(class); len(cs) == 1 {
		return cs[0]
	}
	return crew{classes: []string{class}}
}

// crewFor sums up the members that have what a job needs. who is the same for the same
// ones, and for no others.
func crewFor(n placement.Need, members []member) (c *crew, who string) {
	c = &crew{}
	bits := make([]byte, (len(members)+7)/8)
	for i, m := range members {
		if m.slots == 0 || m.rest() > 0 || !m.offer.Takes(m.pool, n) {
			continue
		}
		bits[i/8] |= 1 << (i % 8)
		c.size = size{c.slots + m.slots, c.free + m.free}
		if !slices.Contains(c.pools, m.pool) {
			c.pools = append(c.pools, m.pool)
		}
	}
	return c, string(bits)
}

// offers returns what the workers of each pool offer that has any.
func (r *registry) offers() map[string][]placement.Offer {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := map[string][]placement.Offer{}
	for _, m := range r.known {
		if m.slots > 0 {
			of[m.pool] = append(of[m.pool], m.offer)
		}
	}
	return of
}

// taker returns the worker that has most room for a job of a class, and
// the heartbeat that says so, which is younger than age; "": there is none.
func (r *registry) taker(class string, age time.Duration) (worker string, h heard) {
	need := placement.ParseClass(class)
	r.mu.Lock()
	defer r.mu.Unlock()
	most := 0
	for id, m := range r.known {
		if m.free > most && m.heard.beat > 0 && time.Since(m.heard.at) < age && m.rest() == 0 && m.offer.Takes(m.pool, need) {
			worker, h, most = id, m.heard, m.free
		}
	}
	return worker, h
}

// cordonedFor is how long a worker that is cordoned off takes no jobs; it is told so again
// with each heartbeat.
const cordonedFor = 15 * time.Second

// rest returns for how long a worker is to take no jobs, and whether that is because it is
// cordoned off.
func (r *registry) rest(worker string) (d time.Duration, cordoned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.known[worker]
	return m.rest(), m.apart
}

func (m member) rest() time.Duration {
	d := max(time.Until(m.rests), 0)
	if m.apart {
		d = max(d, cordonedFor)
	}
	return d
}

// byPool returns the workers of each pool, and how many of them are in quarantine and
// cordoned off.
func (r *registry) byPool() (workers map[string][]string, resting, cordoned map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	workers, resting, cordoned = map[string][]string{}, map[string]int{}, map[string]int{}
	for id, m := range r.known {
		workers[m.pool] = append(workers[m.pool], id)
		switch {
		case m.apart:
			cordoned[m.pool]++
		case m.rest() > 0:
			resting[m.pool]++
		}
	}
	return workers, resting, cordoned
}

// took counts n more jobs on a worker, fewer if n is negative, until its next
// heartbeat says how many there are. It returns the worker's pool.
func (r *registry) took(worker string, n int) (pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, known := r.known[worker]
	if !known {
		return ""
	}
	m.free = min(max(m.free-n, 0), m.slots)
	r.known[worker] = m
	return m.pool
}

func (r *registry) run(ctx context.Context) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-r.news:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := r.refresh(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "registry not refreshed", "error", err)
		}
	}
}

// refresh writes down who reported here and counts the whole fleet. After an
// error the last count stands, and who reported is written down next time.
func (r *registry) refresh(ctx context.Context) error {
	if err := r.writeDown(ctx); err != nil {
		return err
	}
	fleet, err := r.store.Workers(ctx, workerSilence)
	if err != nil {
		return err
	}
	spoken, err := r.store.Spoken(ctx)
	if err != nil {
		return err
	}
	r.spoken.Store(int64(min(spoken, queue.Protocol)))
	known := make(map[string]member, len(fleet))
	for _, w := range fleet {
		var offer placement.Offer
		_ = json.Unmarshal(w.Offer, &offer) // a worker of another version offers nothing special
		offer.Exclusive = r.pools.Exclusive(w.Pool)
		m := memberOf(w.Pool, w.Slots, busy(w.Slots, w.Busy, w.Held), w.Draining, offer)
		m.since, m.apart = store.IncarnationOf(w.StartedAt), w.Cordon != nil
		if w.Quarantine != nil {
			m.rests = time.Now().Add(w.Quarantine.Left)
		}
		known[w.ID] = m
	}
	if r.count(known) && r.grown != nil {
		r.grown()
	}
	return nil
}

// count takes over what the store knows of the fleet, and reports whether it is
// larger than was known here.
func (r *registry) count(known map[string]member) (grown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.dirty { // newer than what the store has
		if m := r.known[p.worker]; m.since == p.since && known[p.worker].since <= p.since {
			m.rests, m.apart = known[p.worker].rests, known[p.worker].apart
			known[p.worker] = m
		}
	}
	for id, m := range known {
		if before := r.known[id]; before.since == m.since {
			m.heard = before.heard
		}
		known[id] = m
		grown = grown || m.slots > r.known[id].slots || r.known[id].apart && !m.apart
	}
	r.known = known
	return grown
}

func (r *registry) writeDown(ctx context.Context) error {
	r.mu.Lock()
	dirty := r.dirty
	r.dirty = map[process]report{}
	r.mu.Unlock()
	if len(dirty) == 0 {
		return nil
	}
	ws := make([]store.Worker, 0, len(dirty))
	for _, w := range dirty {
		d := describe(w.WorkerInfo)
		d.Silence = time.Since(w.at)
		ws = append(ws, d)
	}
	err := r.store.PutWorkers(ctx, ws)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		maps.Copy(dirty, r.dirty)
		r.dirty = dirty
	}
	return err
}

func describe(w queue.WorkerInfo) store.Worker {
	host, err := json.Marshal(w.Host)
	if err != nil {
		host = nil // Host is plain data; there is nothing in it that could fail
	}
	offer, err := json.Marshal(w.Offer)
	if err != nil {
		offer = nil // the same
	}
	return store.Worker{ID: w.ID, Pool: w.Pool, Version: w.Version, Slots: w.Slots, Busy: w.Busy,
		Draining: w.Draining, Held: w.Held, Tally: w.Tally, StartedAt: w.StartedAt, Host: host, Offer: offer}
}
