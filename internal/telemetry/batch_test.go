package telemetry

import (
	"errors"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/assay-run/assay/pkg/job"
)

// record records spans until the test ends.
func record(t *testing.T, sampler sdktrace.Sampler) *tracetest.SpanRecorder {
	t.Helper()
	rec, before := tracetest.NewSpanRecorder(), otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler),
		sdktrace.WithSpanProcessor(Describer{}), sdktrace.WithSpanProcessor(rec)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	return rec
}

// TestBatchTraces checks that a batch is one span of the client's trace, and each job a trace of its own with a link
// to it.
func TestBatchTraces(t *testing.T) {
	rec := record(t, sdktrace.ParentBased(sdktrace.AlwaysSample()))
	_, b := StartBatch(WithTraceParent(t.Context(), parent), About{Batch: "b", Tenant: "acme"})
	parents := map[string]bool{}
	for _, id := range []job.ID{"1", "2", "3"} {
		parents[b.Job(id, "gpu")] = true
	}
	b.End(3, nil)
	spans := rec.Ended()
	if len(spans) != 4 || len(parents) != 3 {
		t.Fatalf("%d spans, %d traces", len(spans), len(parents))
	}
	batch := spans[3]
	if batch.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || TraceParent(WithTraceParent(t.Context(), b.Parent())) != b.Parent() {
		t.Errorf("the batch is in trace %s; jobs would be below %q", batch.SpanContext().TraceID(), b.Parent())
	}
	for _, s := range spans[:3] {
		if s.Parent().IsValid() || len(s.Links()) != 1 || s.Links()[0].SpanContext.SpanID() != batch.SpanContext().SpanID() {
			t.Errorf("a job's first span has parent %v and links %v", s.Parent(), s.Links())
		}
		have := map[string]string{}
		for _, a := range s.Attributes() {
			have[string(a.Key)] = a.Value.AsString()
		}
		if have["assay.job"] == "" || have["assay.batch"] != "b" || have["assay.tenant"] != "acme" || have["assay.pool"] != "gpu" {
			t.Errorf("attributes %v", have)
		}
	}
}

// TestBatchSampling checks that the sampler decides for each job, independently of the batch. If the client's trace
// is not recorded, no job's is.
func TestBatchSampling(t *testing.T) {
	rec := record(t, sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.5)))
	_, b := StartBatch(t.Context(), About{})
	for range 1000 {
		if b.Job("1", "") == "" {
			t.Fatal("a job that is not sampled has no trace context")
		}
	}
	b.End(0, errors.New("refused"))
	if n := len(rec.Ended()); n < 300 || n > 700 {
		t.Errorf("of 1000 jobs %d were sampled, want about half", n)
	}

	before := len(rec.Ended())
	_, b = StartBatch(WithTraceParent(t.Context(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"), About{})
	b.Unwanted()
	for range 100 {
		b.Job("1", "")
	}
	b.End(0, nil)
	if n := len(rec.Ended()) - before; n != 0 {
		t.Errorf("%d spans that the client did not want", n)
	}
}

// TestNoBatchTraces checks that without a recorder jobs have the client's trace, or none.
func TestNoBatchTraces(t *testing.T) {
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(noop.NewTracerProvider())
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	for _, want := range []string{"", parent} {
		_, b := StartBatch(WithTraceParent(t.Context(), want), About{Batch: "b"})
		if got := b.Job("1", ""); got != want || b.Parent() != want {
			t.Errorf("got %q and %q, want %q", got, b.Parent(), want)
		}
		b.End(1, nil)
	}
}
