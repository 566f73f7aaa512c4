package dispatcher

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/store"
)

// publishTries is how often a publish that failed is said again at once; after
// that the reaper does it.
const publishTries = 3

// scheduler hands queued jobs to the queue through a window: no more are
// dispatched ahead of the workers than keep them busy, so that priority,
// fairness and cancel are decided as late as possible.
type scheduler struct {
	store     store.Scheduler
	publisher Queue
	registry  *registry
	metrics   *metrics
	log       *slog.Logger
	every     time.Duration
	minWindow int

	work chan struct{} // holds one hint
	more atomic.Bool   // the last look filled a window: there may be more
}

func newScheduler(d *Dispatcher) *scheduler {
	return &scheduler{
		store: d.store, publisher: d.queue, registry: d.registry, metrics: d.metrics, log: d.log,
		every: d.cfg.ScheduleEvery, minWindow: d.cfg.MinWindow, work: make(chan struct{}, 1),
	}
}

// wake says that something was queued.
func (s *scheduler) wake() {
	select {
	case s.work <- struct{}{}:
	default:
	}
}

// taken says that workers claimed jobs, so that a window has room again. It
// costs nothing unless there was more to dispatch.
func (s *scheduler) taken() {
	if s.more.Load() {
		s.wake()
	}
}

func (s *scheduler) run(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-s.work:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.look(ctx)
	}
}

// look fills the window of every pool that has workers.
func (s *scheduler) look(ctx context.Context) {
	more := false
	for pool, slots := range s.registry.pools() {
		window := max(s.minWindow, 2*slots)
		start := time.Now()
		ds, err := s.store.Schedule(ctx, pool, window)
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "schedule failed", "pool", pool, "error", err)
			}
			continue
		}
		// Fewer than asked for could also mean that the window was nearly full.
		more = more || len(ds) > 0
		if err := s.publish(ctx, ds); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "publish failed; the reaper says it again", "jobs", len(ds), "error", err)
		}
		for _, d := range ds {
			telemetry.Step(ctx, "dispatch", d.TraceParent, start)
		}
	}
	s.more.Store(more)
}

// publish puts dispatched jobs onto the queue.
func (s *scheduler) publish(ctx context.Context, ds []store.Dispatch) (err error) {
	if len(ds) == 0 {
		return nil
	}
	start := time.Now()
	for range publishTries {
		if err = s.publisher.Publish(ctx, ds); err == nil || ctx.Err() != nil {
			break
		}
	}
	s.metrics.published(ctx, len(ds), time.Since(start), err)
	return err
}
