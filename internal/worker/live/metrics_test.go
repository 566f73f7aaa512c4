package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/control"
)

// TestSessionsAreTracedAndCounted checks that each request is a span in its trace, except the periodic ones, and that
// starts and ends are counted.
func TestSessionsAreTracedAndCounted(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	tracers, meters := otel.GetTracerProvider(), otel.GetMeterProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(telemetry.Describer{}), sdktrace.WithSpanProcessor(spans)))
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer func() { otel.SetTracerProvider(tracers); otel.SetMeterProvider(meters) }()

	m := manage(t, Config{Pool: "gpu", Runtime: &sandboxes{}, Limits: Limits{Places: 4}})
	open := opening("acme", `{"memory":"1Gi"}`)
	open.TraceParent = "00-" + trace + "-b7ad6b7169203331-01"
	calls := []control.SessionCall{open}
	for _, op := range []control.SessionOp{control.SessionPing, control.SessionKeep, control.SessionPending, control.SessionClose} {
		calls = append(calls, control.SessionCall{Op: op, Session: open.Session, Tenant: "acme", TraceParent: open.TraceParent})
	}
	for _, c := range calls {
		if _, err := m.Handle(t.Context(), c); err != nil {
			t.Fatal(c.Op, err)
		}
	}
	var names []string
	for _, s := range spans.Ended() {
		names = append(names, s.Name())
		have := map[string]string{}
		for _, a := range s.Attributes() {
			have[string(a.Key)] = a.Value.AsString()
		}
		delete(have, "assay.isolation")
		if want := map[string]string{"assay.session": string(open.Session), "assay.tenant": "acme", "assay.pool": "gpu", "assay.worker": "w"}; !maps.Equal(have, want) {
			t.Errorf("%s has %v, want %v", s.Name(), have, want)
		}
		if s.SpanContext().TraceID().String() != trace {
			t.Errorf("%s is in trace %s", s.Name(), s.SpanContext().TraceID())
		}
	}
	if want := []string{"slot", "session open", "session close"}; !slices.Equal(names, want) {
		t.Errorf("spans %v, want %v", names, want)
	}
	await(t, func() bool {
		got := sums(t, reader)
		return got["assay_sessions_created open"] == 1 && got["assay_sessions_created fork"] == 0 &&
			got["assay_sessions_ended succeeded"] == 1 && got["assay_sessions_ended lost"] == 0
	})
}

// sums returns the counters, by name and the value of their label.
func sums(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if s, ok := m.Data.(metricdata.Sum[int64]); ok {
				for _, p := range s.DataPoints {
					label := ""
					for _, a := range p.Attributes.ToSlice() {
						label = a.Value.AsString()
					}
					got[fmt.Sprint(m.Name, " ", label)] = p.Value
				}
			}
		}
	}
	return got
}
