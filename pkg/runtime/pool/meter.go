package pool

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meter tells how well a pool serves: how often it had something ready, how long
// making takes, and how long those waited for whom it had nothing.
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
	// Instruments of these names and units cannot be wrong: errors come from
	// clashes only, and then the instrument still works.
	out.takes, _ = m.Int64Counter("assay.pool.takes", metric.WithDescription("slots asked for"))
	seconds := metric.WithUnit("s")
	buckets := metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)
	out.making, _ = m.Float64Histogram("assay.pool.fill.duration", seconds, buckets, metric.WithDescription("making of a slot ahead of demand"))
	out.waiting, _ = m.Float64Histogram("assay.pool.wait.duration", seconds, buckets, metric.WithDescription("waiting of a job that found no slot ready"))
	ready, _ := m.Int64ObservableGauge("assay.pool.ready", metric.WithDescription("slots that wait for a job"))
	filling, _ := m.Int64ObservableGauge("assay.pool.filling", metric.WithDescription("slots being made ahead of demand"))
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
		m.making.Record(ctx, d.Seconds(), metric.WithAttributes(m.name))
	}
}

func (m *meter) waited(ctx context.Context, d time.Duration) {
	m.waiting.Record(ctx, d.Seconds(), metric.WithAttributes(m.name))
}

func (m *meter) close() {
	if m.levels != nil {
		_ = m.levels.Unregister()
	}
}
