package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// gauges are what the fleet looks like now: for dashboards, and for whatever
// decides how many workers there should be. Every dispatcher reports the same
// numbers, so take the maximum and not the sum.
type gauges struct {
	store  gaugeStore
	fleet  *fleet.Fleet
	leader *leader
	pools  placement.Pools
	every  time.Duration
	log    *slog.Logger

	last    atomic.Pointer[fleetCount]
	seen    map[string]*seenPool // pools that had workers
	tenants tenants
}

// gaugeStore is what gauges need of the store.
type gaugeStore interface {
	Stats(ctx context.Context) (store.Stats, error)
	Workers(ctx context.Context, seenWithin time.Duration) ([]store.Worker, error)
	Queue(ctx context.Context) ([]store.QueueGroup, error)
}

// fleetCount is the fleet at one moment.
type fleetCount struct {
	stats   store.Stats
	backlog map[string]int64 // see gauges.backlog
}

// seenPool is what is remembered of a pool that may have no workers now.
type seenPool struct {
	offers []placement.Offer // of its workers when there were any
	at     time.Time
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
	g.recall(ctx)
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	for {
		stats, err := g.store.Stats(ctx)
		if err == nil {
			g.last.Store(&fleetCount{stats, g.backlog(stats)})
		} else if ctx.Err() == nil {
			g.log.WarnContext(ctx, "live jobs not counted", "error", err)
		}
		g.tenants.count(ctx, g.store, g.log)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// instruments are what the gauges are reported by.
type instruments struct {
	jobs, slots, workers, resting, cordoned, backlog, term, tenants metric.Int64ObservableGauge
	callbacks, undated, days, liveDays                              metric.Int64ObservableGauge
	oldest, dispatched, transaction                                 metric.Float64ObservableGauge
}

func (g *gauges) register() (unregister func(), err error) {
	meter := otel.Meter(scope)
	var errs []error
	gauge := func(name, description string) metric.Int64ObservableGauge {
		i, err := meter.Int64ObservableGauge(name, metric.WithDescription(description))
		errs = append(errs, err)
		return i
	}
	ageGauge := func(name, description string) metric.Float64ObservableGauge {
		i, err := meter.Float64ObservableGauge(name, metric.WithDescription(description))
		errs = append(errs, err)
		return i
	}
	i := instruments{
		jobs:     gauge("assay_jobs", "Live jobs, by class and state."),
		slots:    gauge("assay_slots", "Slots of the workers of a pool, by whether they are free."),
		workers:  gauge("assay_workers", "Workers of a pool that are connected."),
		backlog:  gauge("assay_backlog_slots", "Slots that a pool's busy workers have in use, and those that the jobs need which wait and could run there."),
		resting:  gauge("assay_workers_quarantined", "Workers of a pool that take no jobs because their failures stood out."),
		cordoned: gauge("assay_workers_cordoned", "Workers of a pool that take no jobs because an operator said so."),
		term:     gauge("assay_leader_term", "How often the leader has changed; 0 from dispatchers that do not lead."),
		tenants:  gauge("assay_tenant_jobs", "Live jobs, by tenant and state; the fifty tenants with most of them by name."),

		callbacks:   gauge("assay_callbacks_open", "Callbacks that are not delivered yet, 10,000 at most."),
		undated:     gauge("assay_database_undated_jobs", "Jobs whose id is of no day that has a partition, 10,000 at most: the clock of a dispatcher is wrong."),
		days:        gauge("assay_database_partitions", "Partitions of jobs: one a day, and one of no day."),
		liveDays:    gauge("assay_database_live_days", "Partitions of jobs that the statements of the queue look at: from yesterday on, and earlier days with a job that is not over."),
		oldest:      ageGauge("assay_oldest_queued_seconds", "How long the oldest queued job of a class has waited."),
		dispatched:  ageGauge("assay_oldest_dispatched_seconds", "How long ago the oldest job that no worker has claimed was handed to the queue."),
		transaction: ageGauge("assay_database_oldest_transaction_seconds", "How long the oldest transaction has kept the database from cleaning up."),
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.observe(o, &i)
		return nil
	}, i.jobs, i.slots, i.workers, i.backlog, i.resting, i.cordoned, i.term, i.tenants, i.callbacks, i.undated, i.days, i.liveDays, i.oldest, i.dispatched, i.transaction)
	if err != nil {
		return nil, err
	}
	return func() { _ = r.Unregister() }, nil
}

// observe reports every pool that is known, with zeros: what is absent is no news, and
// whoever waits for a change would wait for ever.
func (g *gauges) observe(o metric.Observer, i *instruments) {
	if last := g.last.Load(); last != nil {
		observeJobs(o, i, last)
		g.observePools(o, i, last.backlog)
		o.ObserveInt64(i.callbacks, last.stats.Callbacks)
		o.ObserveInt64(i.undated, last.stats.Undated)
		o.ObserveInt64(i.days, last.stats.Days)
		o.ObserveInt64(i.liveDays, last.stats.LiveDays)
		o.ObserveFloat64(i.dispatched, last.stats.OldestDispatched.Seconds())
		o.ObserveFloat64(i.transaction, last.stats.OldestTransaction.Seconds())
	}
	term := int64(0)
	if g.leader.is() {
		term = g.leader.term.Load()
	}
	o.ObserveInt64(i.term, term)
	g.tenants.observe(o, i.tenants)
}

func inPool(pool string, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(more, attribute.String("pool", pool))...)
}

// observeJobs reports what waits and runs of each class, and of each pool that is known:
// of jobs that name it and need nothing else.
func observeJobs(o metric.Observer, i *instruments, last *fleetCount) {
	classes := maps.Clone(last.stats.Pools)
	for class := range last.backlog {
		classes[class] = last.stats.Pools[class]
	}
	classes[placement.Any] = last.stats.Pools[placement.Any]
	for class, s := range classes {
		if class == placement.Any {
			class = placement.PoolOf(class)
		}
		for state, n := range map[job.State]int64{job.Queued: s.Queued, job.Dispatched: s.Dispatched, job.Running: s.Running} {
			o.ObserveInt64(i.jobs, n, inPool(class, attribute.String("state", string(state))))
		}
		o.ObserveFloat64(i.oldest, s.OldestQueued.Seconds(), inPool(class))
	}
}

// observePools reports the workers of each pool that is known.
func (g *gauges) observePools(o metric.Observer, i *instruments, backlog map[string]int64) {
	sizes := g.fleet.Sizes()
	workers, resting, cordoned := g.fleet.ByPool()
	for pool, n := range backlog {
		z := sizes[pool]
		o.ObserveInt64(i.backlog, n, inPool(pool))
		o.ObserveInt64(i.slots, int64(z.Free), inPool(pool, attribute.String("use", "free")))
		o.ObserveInt64(i.slots, int64(z.Slots-z.Free), inPool(pool, attribute.String("use", "busy")))
		o.ObserveInt64(i.workers, int64(len(workers[pool])), inPool(pool))
		o.ObserveInt64(i.resting, int64(resting[pool]), inPool(pool, attribute.String("state", "quarantined")))
		o.ObserveInt64(i.cordoned, int64(cordoned[pool]), inPool(pool))
	}
}

// recall reads which pools had workers before this dispatcher started, and what those
// offered.
func (g *gauges) recall(ctx context.Context) {
	g.seen = map[string]*seenPool{}
	workers, err := g.store.Workers(ctx, fleet.Remembered)
	if err != nil {
		if ctx.Err() == nil {
			g.log.WarnContext(ctx, "pools of the past not read", "error", err)
		}
		return
	}
	offers := map[string][]placement.Offer{}
	for _, w := range workers {
		var offer placement.Offer
		_ = json.Unmarshal(w.Offer, &offer) // a worker of another version offers nothing special
		offer.Exclusive = g.pools.Exclusive(w.Pool)
		offers[w.Pool] = append(offers[w.Pool], offer)
	}
	g.note(offers)
}

// note remembers what the workers of pools offer.
func (g *gauges) note(offers map[string][]placement.Offer) {
	for pool, of := range offers {
		g.seen[pool] = &seenPool{different(of), time.Now()}
	}
	maps.DeleteFunc(g.seen, func(_ string, p *seenPool) bool { return time.Since(p.at) > fleet.Remembered })
}

// different drops offers that are alike: of a large pool most are.
func different(offers []placement.Offer) (out []placement.Offer) {
	known := map[string]bool{}
	for _, o := range offers {
		raw, _ := json.Marshal(o) // plain data
		if !known[string(raw)] {
			known[string(raw)] = true
			out = append(out, o)
		}
	}
	return out
}

// backlog returns how many slots each pool should have at least: those in use, and one
// for each job that waits and that its workers could run, dispatched or not. A job that
// names a pool counts there. Any other counts at each pool with workers that could run it; if there is none, at
// those whose last workers could, or could by what the configuration says of them. What decides on the number of
// workers compares it with the slots that there are. A pool with nothing to do has 0:
// what is absent scales nothing down, and nothing up from zero.
func (g *gauges) backlog(stats store.Stats) map[string]int64 {
	live := g.fleet.Offers()
	g.note(live)
	idle := map[string][]placement.Offer{} // what pools without workers would offer
	for pool := range g.pools {
		idle[pool] = []placement.Offer{g.pools.Offer(pool)}
	}
	for pool, p := range g.seen {
		idle[pool] = p.offers
	}
	need := map[string]int64{}
	for pool := range idle {
		need[pool] = 0
	}
	for pool, z := range g.fleet.Sizes() {
		need[pool] += int64(z.Slots - z.Free)
	}
	for class, s := range stats.Pools {
		n := placement.ParseClass(class)
		pools := []string{n.Pool} // whatever else it needs, it waits for this one
		if n.Pool == placement.Any {
			if pools = takers(live, n); len(pools) == 0 {
				pools = takers(idle, n)
			}
		}
		for _, pool := range pools {
			need[pool] += s.Queued + s.Dispatched
		}
	}
	return need
}

// takers returns the pools that could run jobs with a need.
func takers(offers map[string][]placement.Offer, n placement.Need) (pools []string) {
	for pool, of := range offers {
		if slices.ContainsFunc(of, func(o placement.Offer) bool { return o.Takes(pool, n) }) {
			pools = append(pools, pool)
		}
	}
	return pools
}
