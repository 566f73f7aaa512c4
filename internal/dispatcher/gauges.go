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

	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// gauges export the state of the fleet, for dashboards and for the autoscaler of the workers. Every dispatcher
// exports the same numbers: aggregate with the maximum, not the sum.
type gauges struct {
	store   gaugeStore
	reports *reporter
	fleet   *fleet.Fleet
	leader  *leader
	pools   placement.Pools
	every   time.Duration
	log     *slog.Logger

	last    atomic.Pointer[fleetCount]
	seen    map[string]*poolState // pools that had workers, by name
	tenants tenants
}

// gaugeStore is the part of the store that gauges use.
type gaugeStore interface {
	Workers(ctx context.Context, seenWithin time.Duration) ([]store.Worker, error)
}

// fleetCount is the state of the fleet at one moment.
type fleetCount struct {
	counts
	backlog map[string]int64 // see gauges.backlog
}

// poolState is the last state of a pool that may have no workers now.
type poolState struct {
	offers []placement.Offer // of its last workers
	at     time.Time
}

// run reads the counts at every tick until ctx ends. Scrapes read only memory, so their number does not load the
// database.
func (g *gauges) run(ctx context.Context) {
	unregister, err := g.register()
	if err != nil {
		g.log.WarnContext(ctx, "gauges not registered", "error", err)
		return
	}
	defer unregister()
	g.recall(ctx)
	g.reports.recall(ctx)
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	for {
		c, err := g.reports.counts(ctx)
		if err == nil {
			g.last.Store(&fleetCount{*c, g.backlog(c.Stats)})
			g.tenants.set(c.Tenants)
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

// instruments are the instruments of the gauges.
type instruments struct {
	jobs, slots, sessions, workers, resting, cordoned, backlog, term, tenants metric.Int64ObservableGauge
	results                                                                   metric.Int64ObservableGauge
	callbacks, undated, days, liveDays, locks, held, bulk                     metric.Int64ObservableGauge
	oldest, dispatched, transaction, cores, ages, quotas                      metric.Float64ObservableGauge
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
		jobs:     gauge("assay_jobs", "Live jobs, by state. pool is the worker's pool for running jobs, and the job class for others."),
		slots:    gauge("assay_slots", "Jobs that the workers of a pool run (busy), and free slots (free). A job that has run for 100 ms holds no slot, so the sum may exceed all slots."),
		sessions: gauge("assay_fleet_sessions", "Live sessions on the workers of a pool."),
		results:  gauge("assay_results_waiting", "Results at the workers of a pool not acknowledged by a dispatcher yet."),
		cores:    ageGauge("assay_cores", "Cores of the workers' hosts of a pool (all), and cores used by jobs and sessions (busy)."),
		workers:  gauge("assay_workers", "Connected workers of a pool."),
		backlog:  gauge("assay_backlog_slots", "Jobs and sessions that run in a pool, and waiting jobs that could run there. Scale the number of workers by it."),
		resting:  gauge("assay_workers_quarantined", "Quarantined workers of a pool, by state."),
		cordoned: gauge("assay_workers_cordoned", "Cordoned workers of a pool."),
		term:     gauge("assay_leader_term", "Number of leader changes; 0 on dispatchers that do not lead."),
		tenants:  gauge("assay_tenant_jobs", "Live jobs, by tenant and state; only the 50 tenants with the most jobs have their own label."),

		callbacks:   gauge("assay_callbacks_open", "Callbacks not delivered yet, at most 10,000."),
		undated:     gauge("assay_database_undated_jobs", "Jobs whose id has a date without a partition, at most 10,000; not 0 if the clock of a dispatcher is wrong."),
		locks:       gauge("assay_database_locks", "Locks in the shared lock table of Postgres (used), and the size of the table (max)."),
		held:        gauge("assay_database_oldest_xmin_transactions", "Transactions since the oldest snapshot that keeps Postgres from removing dead rows."),
		bulk:        gauge("assay_bulk_waiting", "Unanswered messages of workers, by kind; every dispatcher reports its own."),
		ages:        ageGauge("assay_tenant_oldest_queued_seconds", "Age of the oldest queued job of a tenant, for the 20 tenants with the oldest jobs."),
		quotas:      ageGauge("assay_tenant_quota_used_ratio", "Used part of a tenant's most used quota, for the 20 tenants with the highest; 1 is the limit."),
		days:        gauge("assay_database_partitions", "Partitions of jobs: one per day, and one for other dates."),
		liveDays:    gauge("assay_database_live_days", "Partitions of jobs that queue queries read: from yesterday on, and earlier days with an unfinished job."),
		oldest:      ageGauge("assay_oldest_queued_seconds", "Age of the oldest queued job of a class."),
		dispatched:  ageGauge("assay_oldest_dispatched_seconds", "Time since the dispatch of the oldest job that no worker has claimed."),
		transaction: ageGauge("assay_database_oldest_transaction_seconds", "Age of the oldest transaction that keeps Postgres from cleaning up."),
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.observe(o, &i)
		return nil
	}, i.jobs, i.slots, i.sessions, i.results, i.cores, i.workers, i.backlog, i.resting, i.cordoned, i.term, i.tenants, i.callbacks, i.undated, i.days, i.liveDays, i.locks, i.held, i.bulk, i.ages, i.quotas, i.oldest, i.dispatched, i.transaction)
	if err != nil {
		return nil, err
	}
	return func() { _ = r.Unregister() }, nil
}

// observe reports every known pool, even with zeros: alerts and autoscalers ignore absent series.
func (g *gauges) observe(o metric.Observer, i *instruments) {
	if last := g.last.Load(); last != nil {
		observeJobs(o, i, last)
		g.observePools(o, i, last)
		o.ObserveInt64(i.callbacks, last.Stats.Callbacks)
		o.ObserveInt64(i.undated, last.Stats.Undated)
		o.ObserveInt64(i.days, last.Stats.Days)
		o.ObserveInt64(i.liveDays, last.Stats.LiveDays)
		o.ObserveInt64(i.locks, last.Database.Locks, metric.WithAttributes(attribute.String("use", "used")))
		o.ObserveInt64(i.locks, last.Database.LocksMax, metric.WithAttributes(attribute.String("use", "max")))
		held := int64(0)
		if h := last.Database.Holder; h != nil {
			held = h.Transactions
		}
		o.ObserveInt64(i.held, held)
		for _, q := range last.Quotas {
			o.ObserveFloat64(i.quotas, q.Share(), metric.WithAttributes(attribute.String("tenant", q.Tenant), attribute.String("quota", q.Name)))
		}
		o.ObserveFloat64(i.dispatched, last.Stats.OldestDispatched.Seconds())
		o.ObserveFloat64(i.transaction, last.Stats.OldestTransaction.Seconds())
	}
	term := int64(0)
	if g.leader.is() {
		term = g.leader.term.Load()
	}
	o.ObserveInt64(i.term, term)
	g.tenants.observe(o, i.tenants, i.ages)
	for kind, n := range g.reports.waiting() {
		o.ObserveInt64(i.bulk, int64(n), metric.WithAttributes(attribute.String("kind", kind)))
	}
}

func inPool(pool string, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(more, attribute.String("pool", pool))...)
}

// observeJobs reports the queued and dispatched jobs of each class, and the running jobs of each pool. Running jobs
// have a pool and no class.
func observeJobs(o metric.Observer, i *instruments, last *fleetCount) {
	classes := maps.Clone(last.Stats.Pools)
	for pool := range last.backlog {
		classes[pool] = last.Stats.Pools[pool]
		o.ObserveInt64(i.jobs, last.Stats.RunningIn[pool], inPool(pool, attribute.String("state", string(job.Running))))
	}
	classes[placement.Any] = last.Stats.Pools[placement.Any]
	for class, s := range classes {
		if class == placement.Any {
			class = placement.PoolOf(class)
		}
		for state, n := range map[job.State]int64{job.Queued: s.Queued, job.Dispatched: s.Dispatched} {
			o.ObserveInt64(i.jobs, n, inPool(class, attribute.String("state", string(state))))
		}
		o.ObserveFloat64(i.oldest, s.OldestQueued.Seconds(), inPool(class))
	}
}

// observePools reports the workers of each known pool.
func (g *gauges) observePools(o metric.Observer, i *instruments, last *fleetCount) {
	loads := g.fleet.Loads()
	for pool, n := range last.backlog {
		l := loads[pool]
		o.ObserveInt64(i.backlog, n, inPool(pool))
		o.ObserveInt64(i.slots, int64(l.Free), inPool(pool, attribute.String("use", "free")))
		o.ObserveInt64(i.slots, last.Stats.RunningIn[pool], inPool(pool, attribute.String("use", "busy")))
		o.ObserveFloat64(i.cores, l.Cores, inPool(pool, attribute.String("use", "all")))
		o.ObserveFloat64(i.cores, l.CoresUsed, inPool(pool, attribute.String("use", "busy")))
		o.ObserveInt64(i.sessions, int64(l.Sessions), inPool(pool))
		o.ObserveInt64(i.results, int64(l.Results), inPool(pool))
		o.ObserveInt64(i.workers, int64(l.Workers), inPool(pool))
		o.ObserveInt64(i.resting, int64(l.Quarantined), inPool(pool, attribute.String("state", "quarantined")))
		o.ObserveInt64(i.cordoned, int64(l.Cordoned), inPool(pool))
	}
}

// recall reads which pools had workers before this dispatcher started, and their offers.
func (g *gauges) recall(ctx context.Context) {
	g.seen = map[string]*poolState{}
	workers, err := g.store.Workers(ctx, fleet.Remembered)
	if err != nil {
		if ctx.Err() == nil {
			g.log.WarnContext(ctx, "former pools not read", "error", err)
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

// note records the offers of pools, and drops pools without workers for longer than fleet.Remembered.
func (g *gauges) note(offers map[string][]placement.Offer) {
	for pool, of := range offers {
		g.seen[pool] = &poolState{different(of), time.Now()}
	}
	maps.DeleteFunc(g.seen, func(_ string, p *poolState) bool { return time.Since(p.at) > fleet.Remembered })
}

// different drops duplicate offers. Most workers of a large pool have the same.
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

// backlog returns the work of each pool: its running jobs and sessions, and the waiting jobs that it could run,
// dispatched or not. The autoscaler divides it by the jobs per worker, so a pool keeps the workers that its jobs run
// on. The jobs of draining workers count: they end there or come back.
//
// A waiting job that names a pool counts there. Other jobs count at each pool whose workers could run them. If there
// is none, they count at pools whose last workers could, or whose configured offer allows it. A pool without work has
// 0, since autoscalers ignore absent series.
func (g *gauges) backlog(stats store.Stats) map[string]int64 {
	live := g.fleet.Offers()
	g.note(live)
	idle := map[string][]placement.Offer{} // offers of pools without workers
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
	for pool, l := range g.fleet.Loads() {
		need[pool] += int64(l.Sessions)
	}
	for pool, n := range stats.RunningIn {
		need[pool] += n
	}
	for class, s := range stats.Pools {
		n := placement.ParseClass(class)
		pools := []string{n.Pool} // the named pool, regardless of its other needs
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
