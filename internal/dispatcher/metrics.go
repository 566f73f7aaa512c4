package dispatcher

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const scope = "github.com/assay-run/assay/internal/dispatcher"

// metrics are the dispatcher's instruments. Labels come from small fixed sets.
type metrics struct {
	dispatched, unpublished, claims, outcomes, statuses, losses, reaps, cached, refusals metric.Int64Counter
	lookFailures                                                                         metric.Int64Counter
	queueWait, publishTime, lookTime, reapTime, bulk                                     metric.Float64Histogram
	asides                                                                               metric.Int64Gauge

	looks    map[bool]metric.MeasurementOption // by failure
	refused  metric.MeasurementOption
	granted  metric.MeasurementOption
	outcome  map[job.Outcome]metric.MeasurementOption
	status   map[store.FinishStatus]metric.MeasurementOption
	bulkKind map[string]metric.MeasurementOption
}

func newMetrics() (*metrics, error) {
	meter := otel.Meter(scope)
	var errs []error
	counter := func(name, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	gauge := func(name, description string) metric.Int64Gauge {
		g, err := meter.Int64Gauge(name, metric.WithDescription(description))
		errs = append(errs, err)
		return g
	}
	histogram := func(name, description string, bounds ...float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	ms := []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 1e4, 3e4, 6e4, 3e5, 18e5}
	m := &metrics{
		dispatched:   counter("assay_jobs_dispatched", "Jobs published to the queue, including republished ones."),
		unpublished:  counter("assay_publish_failures", "Failures to publish a job to the queue; the reaper republishes it."),
		claims:       counter("assay_claims", "Claims of deliveries, by result: granted or refused."),
		outcomes:     counter("assay_jobs_finished", "Jobs recorded, by outcome."),
		statuses:     counter("assay_results", "Results received, by status."),
		losses:       counter("assay_leases_lost", "Leases found lost by a heartbeat."),
		reaps:        counter("assay_reaped", "Rows repaired or deleted by the reaper, by kind."),
		cached:       counter("assay_jobs_cached", "Jobs answered with the cached result of an identical job."),
		asides:       gauge("assay_set_aside", "Results that the database rejected and that wait for an operator, at most 10,000."),
		lookFailures: counter("assay_look_failures", "Failed scheduler statements; jobs of their classes stay queued meanwhile."),
		refusals:     counter("assay_workers_refused", "Heartbeats rejected because another worker has the same name."),
		queueWait:    histogram("assay_queue_wait_milliseconds", "Time from acceptance to claim of a job.", ms...),
		publishTime:  histogram("assay_publish_milliseconds", "Duration of one publish to the queue.", ms...),
		lookTime:     histogram("assay_look_milliseconds", "Duration of one scheduler pass, by result: done or failed.", ms...),
		reapTime:     histogram("assay_reap_milliseconds", "Duration of a reaper step, by step; round is the sum of all.", ms...),
		bulk:         histogram("assay_bulk_size", "Rows of one bulk statement, by kind.", 1, 2, 5, 10, 20, 50, 100, 200, 500),
		looks:        map[bool]metric.MeasurementOption{false: label("result", "done"), true: label("result", "failed")},
		granted:      label("result", "granted"), refused: label("result", "refused"),
		outcome: map[job.Outcome]metric.MeasurementOption{}, status: map[store.FinishStatus]metric.MeasurementOption{},
		bulkKind: map[string]metric.MeasurementOption{"claim": label("kind", "claim"), "finish": label("kind", "finish"), "publish": label("kind", "publish")},
	}
	for _, o := range job.Outcomes {
		m.outcome[o] = label("outcome", string(o))
	}
	for _, s := range []store.FinishStatus{store.Recorded, store.Retried, store.Fenced} {
		m.status[s] = label("status", string(s))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m.zero()
	return m, nil
}

// zero exports counters as 0 before the first event. A counter that first appears above 0 has no rate, so alerts miss
// it.
func (m *metrics) zero() {
	ctx := context.Background()
	m.dispatched.Add(ctx, 0)
	m.unpublished.Add(ctx, 0)
	m.losses.Add(ctx, 0)
	m.lookFailures.Add(ctx, 0)
	m.cached.Add(ctx, 0)
	m.claims.Add(ctx, 0, m.granted)
	m.claims.Add(ctx, 0, m.refused)
	for _, at := range m.outcome {
		m.outcomes.Add(ctx, 0, at)
	}
	for _, at := range m.status {
		m.statuses.Add(ctx, 0, at)
	}
	for kind := range reapedKinds(store.ReapStats{}) {
		m.reaps.Add(ctx, 0, label("kind", kind))
	}
	for _, kind := range sweptKinds {
		m.reaps.Add(ctx, 0, label("kind", kind))
	}
}

func label(k, v string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(k, v)))
}

func (m *metrics) published(ctx context.Context, n int, d time.Duration, err error) {
	if err == nil {
		m.dispatched.Add(ctx, int64(n))
	} else {
		m.unpublished.Add(ctx, int64(n))
	}
	m.publishTime.Record(ctx, job.Milliseconds(d))
	m.bulk.Record(ctx, float64(n), m.bulkKind["publish"])
}

func (m *metrics) claimed(ctx context.Context, cs []store.Claimed) {
	n, refused := 0, 0
	for _, c := range cs {
		switch {
		case c.Lease == 0:
			refused++
		case !unread(c):
			n++
			m.queueWait.Record(ctx, c.QueuedMS)
		}
	}
	m.claims.Add(ctx, int64(n), m.granted)
	m.claims.Add(ctx, int64(refused), m.refused)
	m.bulk.Record(ctx, float64(len(cs)), m.bulkKind["claim"])
}

func (m *metrics) finished(ctx context.Context, fs []store.Finish, statuses []store.FinishStatus) {
	byOutcome, byStatus := map[job.Outcome]int64{}, map[store.FinishStatus]int64{}
	for i, f := range fs {
		byStatus[statuses[i]]++
		if statuses[i] == store.Recorded {
			byOutcome[f.Outcome]++
		}
	}
	for o, n := range byOutcome {
		if at, ok := m.outcome[o]; ok { // workers may report others
			m.outcomes.Add(ctx, n, at)
		}
	}
	for s, n := range byStatus {
		m.statuses.Add(ctx, n, m.status[s])
	}
	m.bulk.Record(ctx, float64(len(fs)), m.bulkKind["finish"])
}

// looked counts a pass of the scheduler.
func (m *metrics) looked(ctx context.Context, took time.Duration, err error) {
	m.lookTime.Record(ctx, job.Milliseconds(took), m.looks[err != nil])
	if err != nil {
		m.lookFailures.Add(ctx, 1)
	}
}

func (m *metrics) lost(ctx context.Context, n int) { m.losses.Add(ctx, int64(n)) }

// removed counts swept objects.
func (m *metrics) removed(ctx context.Context, kind string, n int64) {
	m.reaps.Add(ctx, n, label("kind", kind))
}

// reapRound records the durations of a round of the reaper and of its steps.
func (m *metrics) reapRound(ctx context.Context, name string, took time.Duration, steps map[string]time.Duration) {
	m.reapTime.Record(ctx, job.Milliseconds(took), label("step", name))
	for step, d := range steps {
		m.reapTime.Record(ctx, job.Milliseconds(d), label("step", step))
	}
}

func (m *metrics) reaped(ctx context.Context, s store.ReapStats) {
	for kind, n := range reapedKinds(s) {
		if n > 0 {
			m.reaps.Add(ctx, n, label("kind", kind))
		}
	}
}

func reapedKinds(s store.ReapStats) map[string]int64 {
	return map[string]int64{"lease": s.LeasesExpired, "lost": s.JobsLost, "taken_back": s.JobsTakenBack,
		"expired": s.JobsExpired, "canceled": s.JobsCanceled, "batch": s.BatchesDropped, "abandoned": s.BatchesAbandoned}
}
