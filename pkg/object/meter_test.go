package object

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// TestMeter checks that requests to the store are counted with their bytes, and that a missing object is no
// error.
func TestMeter(t *testing.T) {
	reader, before := sdkmetric.NewManualReader(), otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)
	s, err := Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := counted(t, reader); got["assay_object_operations delete error"] != "0" || got["assay_object_bytes get"] != "0" {
		t.Errorf("before anything happens there is %v", got)
	}
	if _, err := s.Put(t.Context(), "a/b", strings.NewReader("12345")); err != nil {
		t.Fatal(err)
	}
	r, _, err := s.Get(t.Context(), "a/b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, r, 2); err != nil {
		t.Fatal(err)
	}
	r.Close()
	_, _ = s.Stat(t.Context(), "a/none")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(gone, "a/c", bytes.NewReader(nil)); err == nil {
		t.Error("stored without time")
	}
	_ = s.Delete(t.Context(), "a/b")
	for range s.List(t.Context(), "") {
		t.Error("something is left")
	}
	got := counted(t, reader)
	for what, want := range map[string]string{
		"assay_object_operations put ok": "1", "assay_object_operations put error": "1", "assay_object_bytes put": "5",
		"assay_object_operations get ok": "1", "assay_object_bytes get": "2", "assay_object_operations stat ok": "1",
		"assay_object_operations delete ok": "1", "assay_object_operations list ok": "1", "assay_object_milliseconds put": "2",
	} {
		if got[what] != want {
			t.Errorf("%s is %q, want %s: %v", what, got[what], want, got)
		}
	}
}

// counted returns counters, and how many values histograms have, by name and labels.
func counted(t *testing.T, reader *sdkmetric.ManualReader) map[string]string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					name := m.Name
					for _, a := range p.Attributes.ToSlice() {
						name += " " + a.Value.AsString()
					}
					got[name] = fmt.Sprint(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					op, _ := p.Attributes.Value("op")
					got[m.Name+" "+op.AsString()] = fmt.Sprint(p.Count)
				}
			}
		}
	}
	return got
}
