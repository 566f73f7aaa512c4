package worker

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// metrics has the worker's instruments. Label values come from small fixed sets: outcome,
// isolation, reason.
type metrics struct {
	run                      metric.Float64Histogram
	slotWait                 metric.Float64Histogram
	claims                   metric.Int64Counter
	fences                   metric.Int64Counter
	back                     metric.Int64Counter
	compiles                 metric.Int64Counter
	tenants                  *byTenant
	artifacts, artifactBytes metric.Int64Counter
	observer                 metric.Registration

	labels sync.Map // label values → metric.MeasurementOption, cached
}

// milliseconds are the buckets of durations, from a cell job to a long run.
var milliseconds = metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 1e4, 3e4, 6e4, 3e5, 18e5)

func newMetrics(w *Worker) (*metrics, error) {
	meter, b := otel.Meter(scope), &builder{}
	m := &metrics{
		run: keep(b)(meter.Float64Histogram("assay_worker_run_milliseconds", milliseconds,
			metric.WithDescription("Run time of user code, by outcome and isolation."))),
		slotWait: keep(b)(meter.Float64Histogram("assay_worker_slot_wait_milliseconds", milliseconds,
			metric.WithDescription("Time from the inputs of a job being ready to its slot being ready."))),
		claims: keepCounter(b)(meter.Int64Counter("assay_worker_claims",
			metric.WithDescription("Deliveries claimed or rejected, by result."))),
		fences: keepCounter(b)(meter.Int64Counter("assay_worker_fences",
			metric.WithDescription("Attempts fenced: killed because no dispatcher responded, or reported too late."))),
		back: keepCounter(b)(meter.Int64Counter("assay_worker_handed_back",
			metric.WithDescription("Attempts handed back, by reason."))),
		compiles: keepCounter(b)(meter.Int64Counter("assay_compiles",
			metric.WithDescription("Programs to compile, by language and whether a cached build was used."))),
		tenants: newByTenant(meter, b),
		artifacts: keepCounter(b)(meter.Int64Counter("assay_artifacts",
			metric.WithDescription("Artifacts stored."))),
		artifactBytes: keepCounter(b)(meter.Int64Counter("assay_artifact_bytes",
			metric.WithDescription("Bytes of artifacts stored."))),
	}
	slots, err := meter.Int64ObservableGauge("assay_worker_slots", metric.WithDescription("Maximum concurrent jobs."))
	b.note(err)
	busy, err := meter.Int64ObservableGauge("assay_worker_slots_busy", metric.WithDescription("Running jobs, of any age."))
	b.note(err)
	free, err := meter.Int64ObservableGauge("assay_worker_slots_free", metric.WithDescription("Free slots. A job that has run for 100 ms holds no slot."))
	b.note(err)
	results, err := meter.Int64ObservableGauge("assay_worker_results_waiting", metric.WithDescription("Results not acknowledged by a dispatcher yet."))
	b.note(err)
	cores, err := meter.Float64ObservableGauge("assay_worker_cores", metric.WithDescription("Cores of the host (all), and cores used by jobs and sessions (busy)."))
	b.note(err)
	age, err := meter.Float64ObservableGauge("assay_worker_heartbeat_age_seconds",
		metric.WithDescription("Time since the last acknowledged heartbeat."))
	b.note(err)
	stalled, err := meter.Float64ObservableGauge("assay_worker_pressure",
		metric.WithDescription("Percentage of the last ten seconds in which tasks of the host waited for a resource."))
	b.note(err)
	held, err := meter.Int64ObservableGauge("assay_worker_held", metric.WithDescription("1 while the worker takes no jobs because of pressure on the host."))
	b.note(err)
	if b.err != nil {
		return nil, b.err
	}
	m.observer, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(slots, int64(w.cfg.Slots))
		l := w.load()
		o.ObserveInt64(busy, int64(l.Running))
		o.ObserveInt64(free, int64(max(w.cfg.Slots-max(l.Running-w.capacity.LongRunning(), 0), 0)))
		o.ObserveInt64(results, int64(l.Results))
		o.ObserveFloat64(cores, l.CoresUsed, metric.WithAttributes(attribute.String("use", "busy")))
		o.ObserveFloat64(cores, l.Cores, metric.WithAttributes(attribute.String("use", "all")))
		o.ObserveFloat64(age, w.HeartbeatAge().Seconds())
		w.observe(o, stalled, held)
		return nil
	}, slots, busy, free, results, cores, age, stalled, held)
	m.zero()
	return m, err
}

// observe reports the pressure on the host.
func (w *Worker) observe(o metric.Observer, stalled metric.Float64Observable, held metric.Int64Observable) {
	cpu, memory, io := w.pressure.Stalled()
	for resource, v := range map[string]float64{"cpu": cpu, "memory": memory, "io": io} {
		o.ObserveFloat64(stalled, v, metric.WithAttributes(attribute.String("resource", resource)))
	}
	n := int64(0)
	if w.pressure.Why() != "" {
		n = 1
	}
	o.ObserveInt64(held, n)
}

// builder keeps the first error of several constructors.
type builder struct{ err error }

func (b *builder) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

func keep(b *builder) func(metric.Float64Histogram, error) metric.Float64Histogram {
	return func(h metric.Float64Histogram, err error) metric.Float64Histogram { b.note(err); return h }
}

func keepCounter(b *builder) func(metric.Int64Counter, error) metric.Int64Counter {
	return func(c metric.Int64Counter, err error) metric.Int64Counter { b.note(err); return c }
}

func (m *metrics) close() { _ = m.observer.Unregister() }

// with returns the cached option for label values.
func (m *metrics) with(key [2]string, attrs func() []attribute.KeyValue) metric.MeasurementOption {
	if o, ok := m.labels.Load(key); ok {
		return o.(metric.MeasurementOption)
	}
	o := metric.WithAttributeSet(attribute.NewSet(attrs()...))
	m.labels.Store(key, o)
	return o
}

func (m *metrics) ran(ctx context.Context, o job.Outcome, i policy.Isolation, ms float64) {
	m.run.Record(ctx, ms, m.with([2]string{string(o), string(i)}, func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("outcome", string(o)), attribute.String("isolation", string(i))}
	}))
}

func (m *metrics) waited(ctx context.Context, ms float64) { m.slotWait.Record(ctx, ms) }

func (m *metrics) claimed(ctx context.Context, granted, refused int) {
	m.claims.Add(ctx, int64(granted), m.one("result", "granted"))
	m.claims.Add(ctx, int64(refused), m.one("result", "refused"))
}

func (m *metrics) fenced(ctx context.Context, n int) {
	m.fences.Add(ctx, int64(n), m.one("when", "running"))
}

func (m *metrics) fencedLate(ctx context.Context) { m.fences.Add(ctx, 1, m.one("when", "reporting")) }

func (m *metrics) handedBack(ctx context.Context, r job.Reason) {
	m.back.Add(ctx, 1, m.one("reason", string(r)))
}

func (m *metrics) compiled(ctx context.Context, language string, cached bool) {
	m.compiles.Add(ctx, 1, m.with([2]string{"compiles " + language, strconv.FormatBool(cached)}, func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("language", language), attribute.Bool("cached", cached)}
	}))
}

func (m *metrics) one(label, value string) metric.MeasurementOption {
	return m.with([2]string{label, value}, func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String(label, value)}
	})
}

// HeartbeatAge returns the time since the last answered heartbeat was sent. Before the first one,
// it returns the time since the worker started.
func (w *Worker) HeartbeatAge() time.Duration {
	return time.Since(w.started) - time.Duration(w.answered.Load())
}
