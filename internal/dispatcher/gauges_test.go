package dispatcher_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/assay-run/assay/pkg/store"
)

// TestGauges: what whoever decides on the number of workers sees.
func TestGauges(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)

	f := newFleet(t)
	cfg := quick
	cfg.MinWindow, cfg.Pool = 3, "own"
	d := f.start(cfg, nil, nil)
	f.work("w1", 2, hang)
	f.submit(20)
	f.submit(3, func(j *store.NewJob) { j.Pool = "nobody's" })
	f.submit(1, func(j *store.NewJob) { j.Pool = "nobody%27s?label.gpu=a100" })
	d.Wake()
	want := map[string]int64{
		"default busy": 2, "default free": 0, "default running": 2, "default quarantined": 0,
		"default workers": 1, "nobody's workers": 0, "own workers": 0,
		"nobody's busy": 0, "nobody's free": 0, "nobody's quarantined": 0,
		"own busy": 0, "own free": 0, "own quarantined": 0, "own queued": 0, "own dispatched": 0, "own running": 0,
		"nobody's queued": 3, "nobody's dispatched": 0, "nobody's running": 0,
		"nobody%27s?label.gpu=a100 queued": 1, "nobody%27s?label.gpu=a100 dispatched": 0, "nobody%27s?label.gpu=a100 running": 0,
		"default backlog": 20, "nobody's backlog": 4, "own backlog": 0,
	}
	f.until("the gauges show it", func() bool {
		got := gauges(t, reader)
		rest := got["default queued"] + got["default dispatched"]
		got = maps.Clone(got)
		delete(got, "default queued")
		delete(got, "default dispatched")
		return maps.Equal(got, want) && rest == 18
	})
	d.stop()
	if got := gauges(t, reader); len(got) != 0 {
		t.Errorf("a dispatcher that has stopped still reports %v", got)
	}
}

// gauges returns the values of our integer gauges by pool and state or use.
func gauges(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			g, ok := m.Data.(metricdata.Gauge[int64])
			if !ok {
				continue
			}
			for _, p := range g.DataPoints {
				pool, ok := p.Attributes.Value("pool")
				if !ok {
					continue // of no pool: others'
				}
				if m.Name == "assay_backlog_slots" {
					got[pool.AsString()+" backlog"] = p.Value
					continue
				}
				if m.Name == "assay_workers" {
					got[pool.AsString()+" workers"] = p.Value
					continue
				}
				kind, ok := p.Attributes.Value("state")
				if !ok {
					kind, _ = p.Attributes.Value("use")
				}
				got[fmt.Sprintf("%s %s", pool.AsString(), kind.AsString())] = p.Value
			}
		}
	}
	return got
}
