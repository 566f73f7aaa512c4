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

// TraceParent returns the W3C traceparent of the span in ctx, or an empty string. The job row
// stores it.
func TraceParent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c["traceparent"]
}

// WithTraceParent returns ctx as a child of a W3C traceparent. It ignores an invalid one.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
}

// Step records a finished span, from start to now, below a job's traceparent. It is for steps that
// handle many jobs at once. It costs nothing if spans are not recorded.
func Step(ctx context.Context, name, parent string, start time.Time, about About) {
	if parent == "" {
		return
	}
	_, span := otel.Tracer(scope).Start(WithAbout(WithTraceParent(ctx, parent), about), name, trace.WithTimestamp(start))
	span.End()
}

// StartSpan begins a span below the span of ctx, if that is recorded. The returned function ends it
// and records the error it gets.
func StartSpan(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, func(error)) {
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

// Serve begins a span for a request that another process made in a trace. The returned function
// ends it and records the error it gets.
func Serve(ctx context.Context, name, parent string, about About) (context.Context, func(error)) {
	ctx, span := otel.Tracer(scope).Start(WithAbout(WithTraceParent(ctx, parent), about), name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Outcome records the outcome of the job on the span of ctx.
func Outcome(ctx context.Context, o job.Outcome) {
	trace.SpanFromContext(ctx).SetAttributes(OutcomeKey.String(string(o)))
}
