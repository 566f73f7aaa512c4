package dispatcher

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// gauges are what the fleet looks like now: for dashboards, and for whatever
// decides how many workers there should be. Every dispatcher reports the same
// numbers, so take the maximum and not the sum.
type gauges struct {
	*Dispatcher
	last atomic.Pointer[store.Stats]

	mu    sync.Mutex
	known map[string]bool // pools that had workers or live jobs since this dispatcher started
}

// run counts now and then until ctx ends. Counting is done here and not when
// somebody looks, so that no number of dashboards burdens the database.
func (g *gauges) run(ctx context.Context) {
	unregister, err := g.register()
	if err != nil {
		g.log.WarnContext(ctx, "gauges not registered", "error", err)
		return
	}
	defer unregister()
	tick := time.NewTicker(g.cfg.RegistryEvery)
	defer tick.Stop()
	for {
		stats, err := g.store.Stats(ctx)
		if err == nil {
			g.last.Store(&stats)
		} else if ctx.Err() == nil {
			g.log.WarnContext(ctx, "live jobs not counted", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (g *gauges) register() (unregister func(), err error) {
	meter := otel.Meter(scope)
	jobs, err1 := meter.Int64ObservableGauge("assay_jobs", metric.WithDescription("Live jobs, by pool and state."))
	oldest, err2 := meter.Float64ObservableGauge("assay_oldest_queued_seconds", metric.WithDescription("How long the oldest queued job of a pool has waited."))
	slots, err3 := meter.Int64ObservableGauge("assay_slots", metric.WithDescription("Slots of the workers of a pool, by whether they are free."))
	backlog, err6 := meter.Int64ObservableGauge("assay_backlog_slots", metric.WithDescription("Slots that the live jobs of a pool need, those that no worker has yet included."))
	resting, err4 := meter.Int64ObservableGauge("assay_workers_quarantined", metric.WithDescription("Workers of a pool that take no jobs because their failures stood out."))
	term, err5 := meter.Int64ObservableGauge("assay_leader_term", metric.WithDescription("How often the leader has changed; reported by the dispatcher that leads."))
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	r, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.observe(o, jobs, oldest, slots)
		for pool, n := range g.backlog() {
			o.ObserveInt64(backlog, n, metric.WithAttributes(attribute.String("pool", pool)))
		}
		if g.leader.is() {
			o.ObserveInt64(term, g.leader.term.Load())
		}
		workers, n := g.registry.byPool()
		for pool := range workers {
			o.ObserveInt64(resting, int64(n[pool]), metric.WithAttributes(attribute.String("pool", pool), attribute.String("state", "quarantined")))
		}
		return nil
	}, jobs, oldest, slots, resting, term, backlog)
	if err != nil {
		return nil, err
	}
	return func() { _ = r.Unregister() }, nil
}

func (g *gauges) observe(o metric.Observer, jobs metric.Int64Observable, oldest metric.Float64Observable, slots metric.Int64Observable) {
	at := func(pool string, more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributes(append(more, attribute.String("pool", pool))...)
	}
	if stats := g.last.Load(); stats != nil {
		for pool, s := range stats.Pools {
			for state, n := range map[job.State]int64{job.Queued: s.Queued, job.Dispatched: s.Dispatched, job.Running: s.Running} {
				o.ObserveInt64(jobs, n, at(pool, attribute.String("state", string(state))))
			}
			o.ObserveFloat64(oldest, s.OldestQueued.Seconds(), at(pool))
		}
	}
	for pool, z := range g.registry.pools() {
		o.ObserveInt64(slots, int64(z.free), at(pool, attribute.String("use", "free")))
		o.ObserveInt64(slots, int64(z.slots-z.free), at(pool, attribute.String("use", "busy")))
	}
}

// backlog returns how many slots the live jobs of each pool need, whatever class they
// wait in and whether they were dispatched or not: what decides on the number of workers
// compares it with the slots that there are. A pool that once had workers or jobs needs
// none afterwards, and the dispatchers' own never says nothing: what is absent scales
// nothing down, and nothing up from zero. It is empty until jobs were counted.
func (g *gauges) backlog() map[string]int64 {
	stats := g.last.Load()
	if stats == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil {
		g.known = map[string]bool{}
	}
	if g.cfg.Pool != "" {
		g.known[g.cfg.Pool] = true
	}
	for pool := range g.registry.pools() {
		g.known[pool] = true
	}
	need := map[string]int64{}
	for class, s := range stats.Pools {
		pool := placement.ParseClass(class).Pool
		g.known[pool] = true
		need[pool] += s.Queued + s.Dispatched + s.Running
	}
	for pool := range g.known {
		need[pool] += 0
	}
	return need
}
