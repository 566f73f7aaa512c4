package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/pkg/job"
)

const scope = "github.com/assay-run/assay"

// TraceParent returns the W3C traceparent of the span in ctx; empty if there is
// none. It is what the job row keeps.
func TraceParent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
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
func Step(ctx context.Context, name, parent string, start time.Time, about About) {
	if parent == "" {
		return
	}
	_, span := otel.Tracer(scope).Start(WithAbout(WithTraceParent(ctx, parent), about), name, trace.WithTimestamp(start))
	span.End()
}

// Within begins a span below the one of ctx, if there is one that is recorded. The
// function ends it; an error that it is given is the span's.
func Within(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, func(error)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, func(error) {}
	}
	ctx, span := otel.Tracer(scope).Start(ctx, name, trace.WithAttributes(attrs...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Serve begins a span for a request that another process made in a trace. The
// function ends it; an error that it is given is the span's.
func Serve(ctx context.Context, name, parent string, about About) (context.Context, func(error)) {
	ctx, span := otel.Tracer(scope).Start(WithAbout(WithTraceParent(ctx, parent), about), name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Outcome notes how what the span of ctx is about ended.
func Outcome(ctx context.Context, o job.Outcome) {
	trace.SpanFromContext(ctx).SetAttributes(OutcomeKey.String(string(o)))
}
