package cell

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// preloadMeter measures the use and the cost of preloads.
type preloadMeter struct {
	hit, miss, well, ill metric.MeasurementOption
	programs, starts     metric.Int64Counter
	registration         metric.Registration
}

func newPreloadMeter(levels func() (count, memory int64)) *preloadMeter {
	m := otel.Meter("github.com/assay-run/assay/pkg/runtime/containerd")
	option := func(name string, is bool) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.Bool(name, is)))
	}
	out := &preloadMeter{hit: option("hit", true), miss: option("hit", false), well: option("usable", true), ill: option("usable", false)}
	// As in package pool: errors only come from name clashes.
	out.programs, _ = m.Int64Counter("assay_preload_programs", metric.WithDescription("Programs with preloadable imports, by whether an interpreter had preloaded all of them."))
	out.starts, _ = m.Int64Counter("assay_preload_starts", metric.WithDescription("Preloading interpreters started, by whether they are usable."))
	count, _ := m.Int64ObservableGauge("assay_preload_interpreters", metric.WithDescription("Preloaded interpreters that are forked for programs."))
	memory, _ := m.Int64ObservableGauge("assay_preload_memory_bytes", metric.WithDescription("Memory of the preloaded interpreters."))
	out.registration, _ = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		n, bytes := levels()
		o.ObserveInt64(count, n)
		o.ObserveInt64(memory, bytes)
		return nil
	}, count, memory)
	return out
}

func (m *preloadMeter) chosen(ctx context.Context, hit bool) {
	if hit {
		m.programs.Add(ctx, 1, m.hit)
	} else {
		m.programs.Add(ctx, 1, m.miss)
	}
}

func (m *preloadMeter) made(ctx context.Context)   { m.starts.Add(ctx, 1, m.well) }
func (m *preloadMeter) failed(ctx context.Context) { m.starts.Add(ctx, 1, m.ill) }

func (m *preloadMeter) close() {
	if m.registration != nil {
		_ = m.registration.Unregister()
	}
}
