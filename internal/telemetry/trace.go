package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// TraceParent returns the W3C traceparent of the span in ctx; empty if there is
// none. It is what the job row keeps.
func TraceParent(ctx context.Context) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c["traceparent"]
}

// WithTraceParent returns ctx as a child of a W3C traceparent. What is not one
// is ignored.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
}

// Step records a span that is already over, from start to now, below a job's
// traceparent: for steps that are done for many jobs at once. It costs nothing
// when nobody listens.
func Step(ctx context.Context, name, parent string, start time.Time, attrs ...attribute.KeyValue) {
	if parent == "" {
		return
	}
	_, span := otel.Tracer("github.com/assay-run/assay").Start(WithTraceParent(ctx, parent), name,
		trace.WithTimestamp(start), trace.WithAttributes(attrs...))
	span.End()
}
