package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestMetricsAreServed(t *testing.T) {
	tel, err := Start(t.Context(), Config{Service: "assay-test"})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Stop(context.WithoutCancel(t.Context()))
	c, err := otel.Meter("test").Int64Counter("assay_test_things")
	if err != nil {
		t.Fatal(err)
	}
	c.Add(t.Context(), 3)
	w := httptest.NewRecorder()
	tel.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"assay_test_things_total 3", "go_goroutines", `service_name="assay-test"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}

func TestLogLinesCarryTheTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(WithTrace(slog.NewJSONHandler(&out, nil))).With("a", 1)
	log.InfoContext(WithTraceParent(t.Context(), parent), "hello")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line["trace_id"] != "0af7651916cd43dd8448eb211c80319c" || line["span_id"] != "b7ad6b7169203331" {
		t.Errorf("line = %v", line)
	}
}

func TestTraceParentRoundTrip(t *testing.T) {
	t.Parallel()
	if got := TraceParent(WithTraceParent(t.Context(), parent)); got != parent {
		t.Errorf("got %q", got)
	}
	if got := TraceParent(WithTraceParent(t.Context(), "nonsense")); got != "" {
		t.Errorf("nonsense became %q", got)
	}
}

func TestStepIsAChildOfTheJob(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	old := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(rec)))
	defer otel.SetTracerProvider(old)
	start := time.Now().Add(-time.Second)
	Step(t.Context(), "record", parent, start, About{})
	Step(t.Context(), "record", "", start, About{}) // no trace: no span
	spans := rec.Ended()
	if len(spans) != 1 {
		t.Fatalf("%d spans", len(spans))
	}
	if s := spans[0]; s.Parent().SpanID().String() != "b7ad6b7169203331" || !s.StartTime().Equal(start) {
		t.Errorf("span %v from %v", s.Parent(), s.StartTime())
	}
}
