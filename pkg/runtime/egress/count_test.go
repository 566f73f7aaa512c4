package egress

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// TestTrafficIsCounted: what programs exchange with hosts, and what became of their
// tries, over all proxies of the process.
func TestTrafficIsCounted(t *testing.T) {
	reader, before := sdkmetric.NewManualReader(), otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	old := count
	count = newCounters()
	defer func() { count = old; otel.SetMeterProvider(before) }()
	Zero()
	if got := traffic(t, reader); len(got) != 5 || got["allowed"] != 0 {
		t.Errorf("before anything happens there is %v", got)
	}
	_, port := host(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	p, addr := serve(t, Config{Rules: rules(t, "127.0.0.1:"+port), Private: loopback(t)})
	c := through(addr)
	resp, err := c.Get("http://127.0.0.1:" + port)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp, err := c.Get("http://127.0.0.1:1"); err == nil {
		resp.Body.Close()
	}
	p.Close()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got := traffic(t, reader)
		if got["allowed"] == 1 && got["refused"] == 1 && got["sent"] > 20 && got["received"] > 20 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("counted %v", got)
		}
	}
}

// traffic returns the counters by their label.
func traffic(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if d, ok := m.Data.(metricdata.Sum[int64]); ok {
				for _, p := range d.DataPoints {
					got[p.Attributes.ToSlice()[0].Value.AsString()] = p.Value
				}
			}
		}
	}
	return got
}
