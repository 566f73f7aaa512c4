package worker

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/job"
)

const scope = "github.com/assay-run/assay/internal/worker"

var tracer = otel.Tracer(scope)

// trace begins the attempt's span, a child of the submit's. The function ends
// it with the outcome.
func (a *attempt) trace(ctx context.Context) (context.Context, func(job.Outcome)) {
	if a.claimed.TraceParent == "" {
		return ctx, func(job.Outcome) {}
	}
	ctx, span := tracer.Start(telemetry.WithTraceParent(ctx, a.claimed.TraceParent), "run",
		trace.WithSpanKind(trace.SpanKindConsumer))
	if !span.IsRecording() {
		return ctx, func(job.Outcome) {}
	}
	span.SetAttributes(
		attribute.String("assay.job", string(a.lease.Job)),
		attribute.Int64("assay.lease", int64(a.lease.Lease)),
		attribute.String("assay.worker", a.cfg.ID))
	return ctx, func(o job.Outcome) {
		span.SetAttributes(attribute.String("assay.outcome", string(o)), attribute.String("assay.isolation", string(a.isolation())))
		if o == "" {
			span.SetStatus(codes.Error, "no outcome: handed back or abandoned")
		}
		span.End()
	}
}

// traceID returns the trace id of a W3C traceparent; empty if it is none.
func traceID(parent string) string {
	if f := strings.Split(parent, "-"); len(f) == 4 && len(f[1]) == 32 {
		return f[1]
	}
	return ""
}
