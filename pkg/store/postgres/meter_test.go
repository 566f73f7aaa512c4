package postgres

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// TestPoolIsMetered checks that the pool is metered while the store is open, and no longer.
func TestPoolIsMetered(t *testing.T) {
	reader, before := sdkmetric.NewManualReader(), otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)
	s := openTest(t, Config{MaxConns: 3})
	conn, err := s.db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := metered(t, reader)
	conn.Release()
	if got["assay_database_connections acquired"] != 1 || got["assay_database_connections_max "] != 3 || got["assay_database_acquires free"]+got["assay_database_acquires waited"] == 0 {
		t.Errorf("%v", got)
	}
	if _, there := got["assay_database_connections constructing"]; !there {
		t.Errorf("what is 0 is absent: %v", got)
	}
	if err := s.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := metered(t, reader); got["assay_database_calls ok"] == 0 {
		t.Errorf("no call is counted: %v", got)
	}
	s.Close()
	if got := metered(t, reader); len(got) != 1 { // the calls above
		t.Errorf("a store that is closed has %v", got)
	}
}

// metered returns the reported values by name and label.
func metered(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	add := func(name string, ps []metricdata.DataPoint[int64]) {
		for _, p := range ps {
			label := ""
			for _, a := range p.Attributes.ToSlice() {
				label = a.Value.AsString()
			}
			got[name+" "+label] = p.Value
		}
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				add(m.Name, d.DataPoints)
			case metricdata.Gauge[int64]:
				add(m.Name, d.DataPoints)
			}
		}
	}
	return got
}
