package telemetry

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/pkg/job"
)

// Batch is the trace of a batch on its way in: one span, in the trace of the request.
// Each of its jobs has a trace of its own, whose first span is linked to that one. A
// trace that held the spans of all jobs could be shown by nothing, and a sampler
// could only take all of it or none.
//
// The sampler decides for each job by itself. If the client has a trace and does not
// want it recorded, its jobs' are not recorded either.
type Batch struct {
	span   trace.Span
	about  About
	link   trace.Link
	parent string // of all jobs, if they have no traces of their own
	own    bool
}

// StartBatch begins the batch's span. End ends it.
func StartBatch(ctx context.Context, about About) (context.Context, *Batch) {
	above := trace.SpanContextFromContext(ctx)
	ctx, span := otel.Tracer(scope).Start(WithAbout(ctx, about), "batch", trace.WithSpanKind(trace.SpanKindInternal))
	here := span.SpanContext()
	b := &Batch{span: span, about: about, link: trace.Link{SpanContext: here}, parent: TraceParent(ctx)}
	b.own = here.IsValid() && here.SpanID() != above.SpanID() // else nobody here makes spans
	return ctx, b
}

// Unwanted has the jobs share the client's trace, which is not recorded.
func (b *Batch) Unwanted() { b.own = false }

// Job begins the trace of one of the batch's jobs and returns its W3C traceparent, or
// the request's if jobs have none of their own; "": there is no trace at all. It is
// safe for concurrent use.
func (b *Batch) Job(id job.ID, pool string) string {
	if !b.own {
		return b.parent
	}
	about := b.about
	about.Job, about.Pool = id, pool
	ctx, span := otel.Tracer(scope).Start(WithAbout(context.Background(), about), "job",
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindProducer), trace.WithLinks(b.link))
	span.End()
	return TraceParent(ctx)
}

// Parent is the traceparent of the batch itself; "": there is none.
func (b *Batch) Parent() string { return b.parent }

// End ends the span, with how many jobs were accepted or why none was.
func (b *Batch) End(jobs int64, err error) {
	if b.span.IsRecording() {
		b.span.SetAttributes(CountKey.Int64(jobs))
		if err != nil {
			b.span.SetStatus(codes.Error, err.Error())
		}
	}
	b.span.End()
}
