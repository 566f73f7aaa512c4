package dispatcher_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// TestGauges checks the gauges that an autoscaler reads.
func TestGauges(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)

	f := newFleet(t)
	cfg := quick
	cfg.MinWindow, cfg.Pools = 3, placement.Pools{"own": {Exclusive: true}, "a100": {Labels: map[string]string{"gpu": "a100"}}, "h100": {Labels: map[string]string{"gpu": "h100"}}}
	last := store.Worker{ID: "last", Pool: "past", Slots: 1, Draining: true, Offer: []byte(`{"labels":{"gpu":"a100"}}`)}
	if err := f.store.PutWorkers(t.Context(), []store.Worker{last}); err != nil {
		t.Fatal(err)
	}
	d := f.start(cfg, nil, nil)
	f.work("w1", 2, hang)
	f.submit(20)
	f.submit(3, func(j *store.NewJob) { j.Pool = "nobody's" })
	f.submit(1, func(j *store.NewJob) { j.Pool = "nobody%27s?label.gpu=a100" })
	f.submit(5, func(j *store.NewJob) { j.Pool = "?label.gpu=a100" })
	d.Wake()
	want := map[string]int64{
		"default busy": 2, "default workers": 1, "past workers": 1,
		"default running": 2, "nobody's queued": 3, "?label.gpu=a100 queued": 5, "?label.gpu=a100 dispatched": 0,
		"nobody%27s?label.gpu=a100 queued": 1, "nobody%27s?label.gpu=a100 dispatched": 0,
		// Jobs that no worker can run count for pools whose last workers or configuration could.
		"default backlog": 20, "nobody's backlog": 4, "own backlog": 0, "a100 backlog": 5, "h100 backlog": 0, "past backlog": 5,
	}
	for _, pool := range []string{"default", "nobody's", "own", "a100", "h100", "past"} { // 0 and not absent
		for _, kind := range []string{"queued", "dispatched", "running", "busy", "free", "quarantined", "cordoned", "workers", "sessions", "results"} {
			want[pool+" "+kind] += 0
		}
	}
	f.until("the gauges show it", func() bool {
		got := gauges(t, reader)
		rest := got["* queued"] + got["* dispatched"]
		got = maps.Clone(got)
		delete(got, "* queued")
		delete(got, "* dispatched")
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
					continue // without a pool: other gauges
				}
				if m.Name == "assay_backlog_slots" {
					got[pool.AsString()+" backlog"] = p.Value
					continue
				}
				if m.Name == "assay_workers" {
					got[pool.AsString()+" workers"] = p.Value
					continue
				}
				if m.Name == "assay_fleet_sessions" || m.Name == "assay_results_waiting" {
					got[pool.AsString()+" "+map[bool]string{true: "sessions", false: "results"}[m.Name == "assay_fleet_sessions"]] = p.Value
					continue
				}
				if m.Name == "assay_workers_cordoned" {
					got[pool.AsString()+" cordoned"] = p.Value
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
