package dispatcher

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// ahead is for how long the window keeps workers busy at their present pace,
// beyond what their free slots take. Whoever comes next waits behind it, so it is
// hardly longer than a look takes on a busy machine.
const ahead = 50 * time.Millisecond

// Where workers are at pace, claims come by the moment, and the window holds what
// they take in many of them: looks may be as far apart as three quarters of it last, unless
// most of it goes at once. The same holds for slower workers while more is queued than
// the window has room for. Else the next job may find workers that wait for it.
const (
	restTime = 100 * time.Millisecond // at most
	atPace   = 100                    // jobs a second
	backlog  = 10                     // jobs a second, where there is a backlog
)

// scheduler hands queued jobs to the queue through a window: no more are
// dispatched ahead of the workers than keep them busy, so that priority,
// fairness and cancel are decided as late as possible.
//
// It looks when something was queued; when workers claimed jobs, if the window
// had no room for all; and every second. Only the leader looks; the other
// dispatchers tell it what happens at theirs.
type scheduler struct {
	store     store.Scheduler
	publisher Queue
	fleet     *fleet.Fleet
	classes   *classes
	repeats   *repeats
	leader    *leader
	hints     *hints
	pace      *pace
	metrics   *metrics
	log       *slog.Logger
	every     time.Duration
	minWindow int

	held    map[string]time.Duration // by pool, how long its workers are busy with what the windows hold since the last look
	windows []int                    // at the last look
	taken   atomic.Int64             // claimed since the last look
	behind  map[string]bool          // pools that had more queued than room at the look before that
	hint    chan struct{}            // holds one
	most    chan struct{}            // holds one: most of a window may be taken
	more    atomic.Bool              // jobs may be queued that a window had no room for
	claimed atomic.Bool              // windows got room since the last look
	queued  atomic.Bool              // something was queued since the last look
	capped  atomic.Bool              // jobs are queued that had room: a tenant runs all it may
}

func newScheduler(d *Dispatcher) *scheduler {
	s := &scheduler{
		store: d.store, publisher: d.queue, fleet: d.fleet, classes: newClasses(d.store, d.queue, d.fleet, d.cfg.Pools, d.log),
		leader: d.leader, hints: &hints{bus: d.queue, log: d.log}, pace: newPace(), metrics: d.metrics, log: d.log,
		every: d.cfg.ScheduleEvery, minWindow: d.cfg.MinWindow, held: map[string]time.Duration{}, behind: map[string]bool{},
		hint: make(chan struct{}, 1), most: make(chan struct{}, 1),
	}
	s.repeats = &repeats{store: d.store, events: d.events, metrics: d.metrics, log: d.log, answered: s.room, images: d.fleet.Images}
	return s
}

// listen hears what happens at the other dispatchers.
func (s *scheduler) listen(ctx context.Context) error {
	return s.hints.listen(ctx, func(h hint) {
		if !s.leader.is() {
			return
		}
		for worker, n := range h.Took {
			s.took(worker, n)
		}
		for worker, n := range h.Ended {
			s.ended(worker, n)
		}
		if h.Queued {
			s.wake()
		}
	})
}

// wake says that something was queued.
func (s *scheduler) wake() {
	s.classes.stale.Store(true)
	if !s.leader.is() {
		s.hints.add(func(h *hint) { h.Queued = true })
		return
	}
	s.queued.Store(true)
	s.more.Store(true)
	s.look()
}

// took says that a worker claimed n jobs, so that its window has room again: with
// n zero too, since what was refused is not dispatched any more. It costs nothing unless there is more to dispatch.
func (s *scheduler) took(worker string, n int) {
	if !s.leader.is() {
		s.hints.add(func(h *hint) { h.Took[worker] += n })
		return
	}
	s.pace.add(s.fleet.Took(worker, n), n)
	s.claimed.Store(true)
	s.taken.Add(int64(n))
	if s.more.Load() {
		s.look()
		offer(s.most)
	}
}

// room says that dispatched jobs are over without having been claimed.
func (s *scheduler) room() {
	if s.leader.is() {
		s.more.Store(true)
	} else {
		s.hints.add(func(h *hint) { h.Queued = true })
	}
	s.took("", 0) // by nobody
}

// ended says that n jobs left a worker, so that their tenant may run more.
func (s *scheduler) ended(worker string, n int) {
	if !s.leader.is() {
		s.hints.add(func(h *hint) { h.Ended[worker] += n })
		return
	}
	s.fleet.Took(worker, -n)
	if s.capped.Load() {
		s.look()
	}
}

func (s *scheduler) look() { offer(s.hint) }

func offer(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // one is waiting
	}
}

func (s *scheduler) run(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	// A look that has begun is ended: what it dispatched should be published.
	whole := context.WithoutCancel(ctx)
	for {
		select {
		case <-s.hint:
		case <-s.fleet.Grown():
		case <-s.leader.gained:
		case <-tick.C:
			s.classes.stale.Store(true)
		case <-ctx.Done():
			return
		}
		if !s.leader.is() {
			continue
		}
		s.fillAll(whole)
		s.rest(ctx)
	}
}

// rest lets claims gather before the next look, if that keeps nobody waiting.
func (s *scheduler) rest(ctx context.Context) {
	wait := time.NewTimer(min(restTime, s.lasts()*3/4))
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
			return
		case <-s.most:
			if s.mostTaken() {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// mostTaken reports whether three quarters of some window may have been claimed since
// the last look.
func (s *scheduler) mostTaken() bool {
	taken := s.taken.Load()
	for _, window := range s.windows {
		if 4*taken >= 3*int64(window) {
			return true
		}
	}
	return false
}

// lasts is how long every pool is busy with what a window held after the last look,
// at most twice the longest rest.
func (s *scheduler) lasts() time.Duration {
	least := 2 * restTime
	for pool := range s.fleet.Sizes() {
		pace := s.pace.of(pool)
		if pace < backlog || pace < atPace && !s.behind[pool] {
			return 0
		}
		least = min(least, s.held[pool])
	}
	return least
}

// note remembers how long a window lasts for the pools of a crew, if that is the shortest
// of theirs: perhaps only that one is full.
func (s *scheduler) note(c fleet.Crew, window int) {
	s.windows = append(s.windows, window)
	lasts := time.Duration(float64(window) / max(s.pace.of(c.Pools...), 1) * float64(time.Second))
	for _, pool := range c.Pools {
		if least, ok := s.held[pool]; !ok || lasts < least {
			s.held[pool] = lasts
		}
	}
}

// fillAll fills the window of every crew: classes that the same workers run share one,
// and tenants their turns in it. What nobody can run stays queued.
func (s *scheduler) fillAll(ctx context.Context) {
	room := s.claimed.Swap(false)
	s.taken.Store(0)
	// What is found now and was not queued since the last look, that one had no
	// room for; or its tenant could not have more then. Of what is found among what was queued
	// nothing is known: there is still a backlog if there was one.
	left := !s.queued.Swap(false) && !s.capped.Load()
	s.classes.refresh(ctx)
	n := 0
	clear(s.held)
	behind := map[string]bool{}
	s.windows = s.windows[:0]
	for _, c := range s.fleet.Crews(append(s.classes.list(), placement.Any)...) {
		window := s.window(c)
		s.note(c, window)
		filled, err := s.fill(ctx, c.Classes, window)
		if err != nil {
			s.log.WarnContext(ctx, "schedule failed", "classes", c.Classes, "error", err)
			return // whatever there was is still there: the next look finds it
		}
		n += filled
		for _, pool := range c.Pools {
			behind[pool] = behind[pool] || filled > 0 && (left || s.behind[pool])
		}
	}
	s.behind = behind
	switch {
	case n > 0:
		s.more.Store(true) // perhaps not, but who knows
		s.capped.Store(false)
	case room:
		s.settle(ctx)
	}
}

// window is how many jobs may be dispatched for a crew and not claimed: one for
// each free slot, and what the workers will take in the near future. Where jobs
// are long and all slots taken, that is next to nothing.
func (s *scheduler) window(c fleet.Crew) int {
	return max(s.minWindow, c.Free+int(s.pace.of(c.Pools...)*ahead.Seconds()))
}

func (s *scheduler) fill(ctx context.Context, classes []string, window int) (int, error) {
	start := time.Now()
	ds, err := s.store.Schedule(ctx, classes, window)
	if err != nil {
		return 0, err
	}
	s.metrics.lookTime.Record(ctx, job.Milliseconds(time.Since(start)))
	for _, d := range ds {
		telemetry.Step(ctx, "dispatch", d.TraceParent, start, aboutDispatch(d))
	}
	if err := s.publish(ctx, ds); err != nil {
		s.log.WarnContext(ctx, "publish failed; the reaper says it again", "jobs", len(ds), "error", err)
	}
	return len(ds), nil
}

// settle is called when there was room and nothing came of it: either the queue
// is empty, and claims need not be followed by a look; or what is in it may not
// run now, and then ends must be.
func (s *scheduler) settle(ctx context.Context) {
	s.more.Store(false) // before counting, so that a wake in between stays
	stats, err := s.store.Stats(ctx)
	if err == nil && stats.Queued == 0 {
		s.capped.Store(false)
		return
	}
	s.more.Store(true)
	// Neither claims since a moment ago nor ends until now have led to a look.
	deaf := !s.capped.Swap(true)
	if s.claimed.Load() || deaf {
		s.claimed.Store(true)
		s.look()
	}
}

// publish puts dispatched jobs onto the queue, but for those that need not run. If it cannot, the reaper will.
func (s *scheduler) publish(ctx context.Context, ds []store.Dispatch) error {
	if ds = s.repeats.filter(ctx, ds); len(ds) == 0 {
		return nil
	}
	start := time.Now()
	err := s.publisher.Publish(ctx, ds)
	s.metrics.published(ctx, len(ds), time.Since(start), err)
	return err
}
