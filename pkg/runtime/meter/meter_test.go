package meter

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/assay-run/assay/pkg/job"
)

// TestFetchingIsCounted checks that fetches are counted by result, that each counter exists before its first
// event, and that the span of a fetch is below its job's.
func TestFetchingIsCounted(t *testing.T) {
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
	meters, tracers := otel.GetMeterProvider(), otel.GetTracerProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	defer func() { otel.SetMeterProvider(meters); otel.SetTracerProvider(tracers) }()
	f := NewPulls()
	ctx, parent := otel.Tracer("test").Start(t.Context(), "slot")
	for _, err := range []error{nil, nil, job.Invalid("image", "there is none"), errors.New("away")} {
		_, end := f.Begin(ctx, "ghcr.io/ours/x")
		end(100, err)
	}
	NewBuilds()
	NewFetches()
	(*Fetching)(nil).Begin(ctx, "")
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				result, _ := p.Attributes.Value("result")
				got[m.Name+" "+result.AsString()] = fmt.Sprint(p.Value)
			}
		case metricdata.Histogram[float64]:
			got[m.Name] = fmt.Sprint(d.DataPoints[0].Count)
		}
	}
	want := map[string]string{
		"assay_image_pulls ok": "2", "assay_image_pulls refused": "1", "assay_image_pulls error": "1", "assay_image_pull_bytes ": "200", "assay_image_pull_milliseconds": "4",
		"assay_environment_fetches ok": "0", "assay_environment_fetches refused": "0", "assay_environment_fetches error": "0", "assay_environment_fetch_bytes ": "0",
		"assay_environment_builds ok": "0", "assay_environment_builds refused": "0", "assay_environment_builds error": "0", "assay_environment_build_bytes ": "0",
	}
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if ended := spans.Ended(); len(ended) != 4 || ended[0].Name() != "fetch" || ended[0].Parent().SpanID() != parent.SpanContext().SpanID() {
		t.Errorf("spans %v", ended)
	}
}
