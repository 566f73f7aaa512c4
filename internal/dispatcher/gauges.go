package dispatcher

import (
	"context"
	"errors"
	"maps"
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
	last    atomic.Pointer[store.Stats]
	tenants tenants

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
		g.tenants.count(ctx, g.Dispatcher)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// instruments are what the gauges are reported by.
type instruments struct {
	jobs, slots, workers, resting, backlog, term, tenants metric.Int64ObservableGauge
	oldest                                                metric.Float64ObservableGauge
}

func (g *gauges) register() (unregister func(), err error) {
	meter := otel.Meter(scope)
	var errs []error
	gauge := func(name, description string) metric.Int64ObservableGauge {
		i, err := meter.Int64ObservableGauge(name, metric.WithDescription(description))
		errs = append(errs, err)
		return i
	}
	i := instruments{
		jobs:    gauge("assay_jobs", "Live jobs, by pool and state."),
		slots:   gauge("assay_slots", "Slots of the workers of a pool, by whether they are free."),
		workers: gauge("assay_workers", "Workers of a pool that are connected."),
		backlog: gauge("assay_backlog_slots", "Slots that the live jobs of a pool need, those that no worker has yet included."),
		resting: gauge("assay_workers_quarantined", "Workers of a pool that take no jobs because their failures stood out."),
		term:    gauge("assay_leader_term", "How often the leader has changed; 0 from dispatchers that do not lead."),
		tenants: gauge("assay_tenant_jobs", "Live jobs, by tenant and state; the fifty tenants with most of them by name."),
	}
	i.oldest, err = meter.Float64ObservableGauge("assay_oldest_queued_seconds", metric.WithDescription("How long the oldest queued job of a pool has waited."))
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	r, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.observe(o, &i)
		return nil
	}, i.jobs, i.slots, i.workers, i.backlog, i.resting, i.term, i.tenants, i.oldest)
	if err != nil {
		return nil, err
	}
	return func() { _ = r.Unregister() }, nil
}

// observe reports every pool that is known, with zeros: what is absent is no news, and
// whoever waits for a change would wait for ever.
func (g *gauges) observe(o metric.Observer, i *instruments) {
	at := func(pool string, more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributes(append(more, attribute.String("pool", pool))...)
	}
	backlog := g.backlog()
	if stats := g.last.Load(); stats != nil {
		pools := maps.Clone(stats.Pools)
		for pool := range backlog {
			pools[pool] = stats.Pools[pool]
		}
		for pool, s := range pools {
			for state, n := range map[job.State]int64{job.Queued: s.Queued, job.Dispatched: s.Dispatched, job.Running: s.Running} {
				o.ObserveInt64(i.jobs, n, at(pool, attribute.String("state", string(state))))
			}
			o.ObserveFloat64(i.oldest, s.OldestQueued.Seconds(), at(pool))
		}
	}
	sizes := g.registry.pools()
	workers, resting := g.registry.byPool()
	for pool, n := range backlog {
		z := sizes[pool]
		o.ObserveInt64(i.backlog, n, at(pool))
		o.ObserveInt64(i.slots, int64(z.free), at(pool, attribute.String("use", "free")))
		o.ObserveInt64(i.slots, int64(z.slots-z.free), at(pool, attribute.String("use", "busy")))
		o.ObserveInt64(i.workers, int64(len(workers[pool])), at(pool))
		o.ObserveInt64(i.resting, int64(resting[pool]), at(pool, attribute.String("state", "quarantined")))
	}
	term := int64(0)
	if g.leader.is() {
		term = g.leader.term.Load()
	}
	o.ObserveInt64(i.term, term)
	g.tenants.observe(o, i.tenants)
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
