package dispatcher

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// ahead is how long the window keeps workers busy at their present claim rate, beyond their free slots. New jobs wait
// behind it, so it is hardly longer than a pass on a busy machine.
const ahead = 50 * time.Millisecond

// scheduler moves queued jobs to the queue through a window: it dispatches no more jobs than keep the workers busy.
// So priority, fairness and cancel are decided as late as possible.
//
// It makes a pass when jobs were queued, when workers claimed jobs and more wait, and every second (pacer). Only the
// leader makes passes; the other dispatchers send it their events.
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
	narrowed  narrowing
	looks     timings
}

// schedulerStore is the part of the store that a scheduler uses.
type schedulerStore interface {
	Schedule(ctx context.Context, classes []string, window int) ([]store.Dispatch, error)
	Stats(ctx context.Context) (store.Stats, error)
}

// publisher publishes dispatched jobs to the queue. Every queue.Publisher implements it.
type publisher interface {
	Publish(ctx context.Context, ds []store.Dispatch) error
}

// listen applies the events of the other dispatchers while this one leads.
func (s *scheduler) listen(ctx context.Context) error {
	return s.peers.listen(ctx, func(h peerEvent) {
		if !s.leader.is() {
			return
		}
		s.peers.store.AddHints(h.Hints)
		for worker, n := range h.Took {
			s.took(worker, n)
		}
		for worker, n := range h.Ended {
			s.noteEnd(worker, n)
		}
		if h.Queued {
			s.wake()
		}
	})
}

// wake notes that jobs were queued.
func (s *scheduler) wake() {
	s.classes.stale.Store(true)
	if !s.leader.is() {
		s.peers.add(func(h *peerEvent) { h.Queued = true })
		return
	}
	s.pacer.woke()
}

// took notes that a worker claimed n jobs, so that its window has room. n may be 0: refused jobs leave the window,
// too.
func (s *scheduler) took(worker string, n int) {
	if !s.leader.is() {
		s.peers.add(func(h *peerEvent) { h.Took[worker] += n })
		return
	}
	s.pacer.took(s.fleet.Took(worker, n), n)
}

// room notes that dispatched jobs ended without a claim.
func (s *scheduler) room() {
	if !s.leader.is() {
		s.peers.add(func(h *peerEvent) {
			h.Queued = true
			h.Took[""] += 0 // no worker
		})
		return
	}
	s.pacer.room()
}

// noteEnd notes that n jobs left a worker, so that their tenants may run more.
func (s *scheduler) noteEnd(worker string, n int) {
	if !s.leader.is() {
		s.peers.add(func(h *peerEvent) { h.Ended[worker] += n })
		return
	}
	s.fleet.Took(worker, -n)
	s.pacer.noteEnd()
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
	// A pass is completed even after ctx ended, so that dispatched jobs are published.
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
			s.pacer.noteRequest()
		case <-s.fleet.Growth():
			s.pacer.noteRequest()
		case <-s.leader.gained:
			s.pacer.noteRequest()
		case <-ctx.Done():
		}
	}
}

// look fills the window of every crew. Classes with the same workers share a window, and tenants take turns in it.
// Jobs that no worker can run stay queued. Crews that failed before come last, so that they do not delay the others.
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
	if !s.fillAll(ctx, l) {
		s.pacer.failed(time.Now())
		return
	}
	if s.pacer.end(l, time.Now(), slices.Collect(maps.Keys(s.fleet.Sizes()))) {
		s.settle(ctx)
	}
}

// fillAll fills all windows. It returns false if all statements failed, or if the leadership ended meanwhile: a statement that
// fails can take longer than a leadership lasts.
func (s *scheduler) fillAll(ctx context.Context, l *look) bool {
	crews := s.fleet.Crews(append(s.classes.list(), placement.Any)...)
	s.narrowed = s.narrowed.sort(crews)
	failed := 0
	for _, c := range crews {
		if failed > 0 && !s.leader.is() {
			return false
		}
		window := s.narrowed.window(c, s.window(c))
		filled, err := s.fill(ctx, c.Classes, window)
		s.narrowed.note(c, err)
		if err != nil {
			failed++
			s.log.WarnContext(ctx, "scheduler pass failed; the next one has a smaller window", "classes", c.Classes, "window", window, "error", err)
			continue
		}
		s.pacer.offered(l, c.Pools, window)
		s.pacer.filled(l, c.Pools, filled)
	}
	return failed == 0 || failed < len(crews)
}

// window returns how many jobs may be dispatched and unclaimed for a crew: its free slots, and the claims expected
// within ahead. With long jobs and no free slots it is minWindow.
func (s *scheduler) window(c fleet.Crew) int {
	return max(s.minWindow, c.Free+int(s.pacer.rate.of(c.Pools...)*ahead.Seconds()))
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

// looked records a pass, failed or not.
func (s *scheduler) looked(ctx context.Context, took time.Duration, err error) {
	s.metrics.looked(ctx, took, err)
	s.looks.add(time.Now(), took, err)
}

// settle checks whether the queue is empty, after a pass with room that found no job.
func (s *scheduler) settle(ctx context.Context) {
	s.pacer.drained() // before counting, to keep a wake-up in between
	stats, err := s.store.Stats(ctx)
	s.pacer.settled(err == nil && stats.Queued == 0)
}

// publish publishes dispatched jobs, except the ones answered from the cache. After an error the reaper republishes
// them.
func (s *scheduler) publish(ctx context.Context, ds []store.Dispatch) error {
	if ds = s.repeats.filter(ctx, ds); len(ds) == 0 {
		return nil
	}
	start := time.Now()
	err := s.publisher.Publish(ctx, ds)
	s.metrics.published(ctx, len(ds), time.Since(start), err)
	return err
}
