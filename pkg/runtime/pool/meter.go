package pool

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meter measures a pool: how often an item was ready, how long items take to create, and how long
// requests waited without a ready item.
type meter struct {
	name            attribute.KeyValue
	hit, miss       metric.MeasurementOption
	takes           metric.Int64Counter
	making, waiting metric.Float64Histogram
	levels          metric.Registration
}

func newMeter(name string, levels func() (ready, making int64)) *meter {
	m := otel.Meter("github.com/assay-run/assay/pkg/runtime/pool")
	out := &meter{name: attribute.String("pool", name)}
	out.hit = metric.WithAttributeSet(attribute.NewSet(out.name, attribute.Bool("hit", true)))
	out.miss = metric.WithAttributeSet(attribute.NewSet(out.name, attribute.Bool("hit", false)))
	// These names and units are constants. Errors only come from name clashes, and then the
	// instrument still works.
	out.takes, _ = m.Int64Counter("assay_pool_takes", metric.WithDescription("Slot requests, by whether a warm slot was ready."))
	buckets := metric.WithExplicitBucketBoundaries(1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 1e4)
	out.making, _ = m.Float64Histogram("assay_pool_fill_milliseconds", buckets, metric.WithDescription("Time to prepare a warm slot."))
	out.waiting, _ = m.Float64Histogram("assay_pool_wait_milliseconds", buckets, metric.WithDescription("Wait of jobs that found no warm slot ready."))
	ready, _ := m.Int64ObservableGauge("assay_pool_ready", metric.WithDescription("Warm slots ready for a job."))
	filling, _ := m.Int64ObservableGauge("assay_pool_filling", metric.WithDescription("Warm slots in preparation."))
	out.levels, _ = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r, f := levels()
		o.ObserveInt64(ready, r, metric.WithAttributes(out.name))
		o.ObserveInt64(filling, f, metric.WithAttributes(out.name))
		return nil
	}, ready, filling)
	return out
}

func (m *meter) taken(ctx context.Context, hit bool) {
	if hit {
		m.takes.Add(ctx, 1, m.hit)
	} else {
		m.takes.Add(ctx, 1, m.miss)
	}
}

func (m *meter) made(ctx context.Context, d time.Duration, err error) {
	if err == nil {
		m.making.Record(ctx, milliseconds(d), metric.WithAttributes(m.name))
	}
}

func (m *meter) waited(ctx context.Context, d time.Duration) {
	m.waiting.Record(ctx, milliseconds(d), metric.WithAttributes(m.name))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (m *meter) close() {
	if m.levels != nil {
		_ = m.levels.Unregister()
	}
}
