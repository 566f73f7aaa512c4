package worker

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/job"
)

const scope = "github.com/assay-run/assay/internal/worker"

// trace begins the attempt's span, a child of the job's span. The returned function ends it with
// the outcome. The steps of the attempt are child spans: fetch, slot, program, collect.
func (a *attempt) trace(ctx context.Context) (context.Context, func(job.Outcome)) {
	if a.claimed.TraceParent == "" {
		return ctx, func(job.Outcome) {}
	}
	about := telemetry.About{
		Job: a.lease.Job, Batch: a.claimed.BatchID, Tenant: a.claimed.Tenant, Pool: a.cfg.Pool, Worker: a.cfg.ID, Attempt: a.lease.Lease,
	}
	ctx, span := otel.Tracer(scope).Start(telemetry.WithAbout(telemetry.WithTraceParent(ctx, a.claimed.TraceParent), about), "run",
		trace.WithSpanKind(trace.SpanKindConsumer))
	if !span.IsRecording() {
		return ctx, func(job.Outcome) {}
	}
	return ctx, func(o job.Outcome) {
		span.SetAttributes(telemetry.OutcomeKey.String(string(o)), telemetry.IsolationKey.String(string(a.isolation())))
		if o == "" {
			span.SetStatus(codes.Error, "no outcome: handed back or abandoned")
		}
		span.End()
	}
}

// traceCollect records the storing of the attempt's artifacts, which happens while its slot ends.
func (a *attempt) traceCollect(ctx context.Context) {
	left := a.kept.Stored()
	if left.First.IsZero() || !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	_, span := otel.Tracer(scope).Start(ctx, "collect", trace.WithTimestamp(left.First), trace.WithAttributes(
		telemetry.CountKey.Int(len(left.Artifacts)), telemetry.BytesKey.Int64(left.Bytes)))
	span.End(trace.WithTimestamp(left.Last))
}

// finishTenant returns the tenant for the trace of the record, or "" without a trace.
func (a *attempt) finishTenant() string {
	if a.claimed.TraceParent == "" {
		return ""
	}
	return a.claimed.Tenant
}

// traceID returns the trace id of a W3C traceparent, or "" if it is not one.
func traceID(parent string) string {
	if f := strings.Split(parent, "-"); len(f) == 4 && len(f[1]) == 32 {
		return f[1]
	}
	return ""
}
