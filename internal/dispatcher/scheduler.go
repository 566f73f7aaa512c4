package dispatcher

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// ahead is for how long the window keeps workers busy at their present pace,
// beyond what their free slots take. Whoever comes next waits behind it, so it is
// hardly longer than a look takes on a busy machine.
const ahead = 50 * time.Millisecond

// scheduler hands queued jobs to the queue through a window: no more are
// dispatched ahead of the workers than keep them busy, so that priority,
// fairness and cancel are decided as late as possible.
//
// It looks when something was queued; when workers claimed jobs, if the window
// had no room for all; and every second (pacer). Only the leader looks; the other
// dispatchers tell it what happens at theirs.
type scheduler struct {
	store     schedulerStore
	publisher publisher
	fleet     *fleet.Fleet
	classes   *classes
	repeats   *repeats
	leader    *leader
	peers     *peerEvents
	pacer     *pacer
	metrics   *metrics
	log       *slog.Logger
	minWindow int
	failures  int // looks that failed, less those that succeeded since
	looks     timings
}

// schedulerStore is what a scheduler needs of the store.
type schedulerStore interface {
	Schedule(ctx context.Context, classes []string, window int) ([]store.Dispatch, error)
	Stats(ctx context.Context) (store.Stats, error)
}

// publisher puts dispatched jobs onto the queue; every queue.Publisher does.
type publisher interface {
	Publish(ctx context.Context, ds []store.Dispatch) error
}

// listen hears what happens at the other dispatchers.
func (s *scheduler) listen(ctx context.Context) error {
	return s.peers.listen(ctx, func(h peerEvent) {
		if !s.leader.is() {
			return
		}
		s.peers.store.Hear(h.Hints)
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
		s.peers.add(func(h *peerEvent) { h.Queued = true })
		return
	}
	s.pacer.woke()
}

// took says that a worker claimed n jobs, so that its window has room again: with
// n zero too, since what was refused is not dispatched any more.
func (s *scheduler) took(worker string, n int) {
	if !s.leader.is() {
		s.peers.add(func(h *peerEvent) { h.Took[worker] += n })
		return
	}
	s.pacer.took(s.fleet.Took(worker, n), n)
}

// room says that dispatched jobs are over without having been claimed.
func (s *scheduler) room() {
	if !s.leader.is() {
		s.peers.add(func(h *peerEvent) {
			h.Queued = true
			h.Took[""] += 0 // by nobody
		})
		return
	}
	s.pacer.room()
}

// ended says that n jobs left a worker, so that their tenant may run more.
func (s *scheduler) ended(worker string, n int) {
	if !s.leader.is() {
		s.peers.add(func(h *peerEvent) { h.Ended[worker] += n })
		return
	}
	s.fleet.Took(worker, -n)
	s.pacer.ended()
}

func offer(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // one is waiting
	}
}

func (s *scheduler) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	// A look that has begun is ended: what it dispatched should be published.
	whole := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		look, wait := s.pacer.next(time.Now())
		if look {
			s.look(whole)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.pacer.asks:
			s.pacer.heard()
		case <-s.fleet.Grown():
			s.pacer.heard()
		case <-s.leader.gained:
			s.pacer.heard()
		case <-ctx.Done():
		}
	}
}

// look fills the window of every crew: classes that the same workers run share one,
// and tenants their turns in it. What nobody can run stays queued.
func (s *scheduler) look(ctx context.Context) {
	if !s.leader.is() {
		s.pacer.skipped(time.Now())
		return
	}
	l := s.pacer.begin(time.Now())
	if l.due {
		s.classes.stale.Store(true)
	}
	s.classes.refresh(ctx)
	for _, c := range s.fleet.Crews(append(s.classes.list(), placement.Any)...) {
		window := s.narrowed(s.window(c))
		s.pacer.offered(l, c.Pools, window)
		filled, err := s.fill(ctx, c.Classes, window)
		if err != nil {
			s.failures = min(s.failures+1, mostNarrowed)
			s.log.WarnContext(ctx, "scheduler pass failed; the next one has a smaller window", "classes", c.Classes, "window", window, "error", err)
			s.pacer.failed(time.Now())
			return
		}
		s.failures = max(s.failures-1, 0)
		s.pacer.filled(l, c.Pools, filled)
	}
	if s.pacer.end(l, time.Now(), slices.Collect(maps.Keys(s.fleet.Sizes()))) {
		s.settle(ctx)
	}
}

// window is how many jobs may be dispatched for a crew and not claimed: one for
// each free slot, and what the workers will take in the near future. Where jobs
// are long and all slots taken, that is next to nothing.
func (s *scheduler) window(c fleet.Crew) int {
	return max(s.minWindow, c.Free+int(s.pacer.rate.of(c.Pools...)*ahead.Seconds()))
}

// mostNarrowed is how often the window is halved at most.
const mostNarrowed = 10

// narrowed halves a window for each look that failed, so that the scheduler finds a size that
// the database can fill. Each look that succeeds doubles it again.
func (s *scheduler) narrowed(window int) int {
	return max(window>>s.failures, min(window, 1))
}

func (s *scheduler) fill(ctx context.Context, classes []string, window int) (int, error) {
	start := time.Now()
	ds, err := s.store.Schedule(ctx, classes, window)
	s.looked(ctx, time.Since(start), err)
	if err != nil {
		return 0, err
	}
	for _, d := range ds {
		telemetry.Step(ctx, "dispatch", d.TraceParent, start, aboutDispatch(d))
	}
	if err := s.publish(ctx, ds); err != nil {
		s.log.WarnContext(ctx, "publish failed; the reaper will republish", "jobs", len(ds), "error", err)
	}
	return len(ds), nil
}

// looked counts a look, and one that failed as such.
func (s *scheduler) looked(ctx context.Context, took time.Duration, err error) {
	s.metrics.looked(ctx, took, err)
	s.looks.add(time.Now(), took, err)
}

// settle is called when there was room and nothing came of it.
func (s *scheduler) settle(ctx context.Context) {
	s.pacer.drained() // before counting, so that a wake in between stays
	stats, err := s.store.Stats(ctx)
	s.pacer.settled(err == nil && stats.Queued == 0)
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
