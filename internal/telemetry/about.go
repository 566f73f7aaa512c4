package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/pkg/job"
)

// The attributes of spans. docs/operate/monitoring.md lists the same names in a table; a test compares
// them.
const (
	JobKey       = attribute.Key("assay.job")
	BatchKey     = attribute.Key("assay.batch")
	TenantKey    = attribute.Key("assay.tenant")
	PoolKey      = attribute.Key("assay.pool")
	AttemptKey   = attribute.Key("assay.attempt")
	WorkerKey    = attribute.Key("assay.worker")
	SessionKey   = attribute.Key("assay.session")
	OutcomeKey   = attribute.Key("assay.outcome")
	IsolationKey = attribute.Key("assay.isolation")
	KindKey      = attribute.Key("assay.kind")
	CountKey     = attribute.Key("assay.count")
	BytesKey     = attribute.Key("assay.bytes")
)

// About is the subject of a span. An empty field is unknown or does not apply.
type About struct {
	Job     job.ID
	Batch   job.ID
	Session job.ID
	Tenant  string
	Pool    string
	Worker  string
	Attempt job.Lease // the lease of the attempt: 1 for the first
}

// attributes returns the attributes of the fields that are set.
func (a *About) attributes() []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, 8)
	add := func(k attribute.Key, v string) {
		if v != "" {
			out = append(out, k.String(v))
		}
	}
	add(JobKey, string(a.Job))
	add(BatchKey, string(a.Batch))
	add(SessionKey, string(a.Session))
	add(TenantKey, a.Tenant)
	add(PoolKey, a.Pool)
	add(WorkerKey, a.Worker)
	if a.Attempt != 0 {
		out = append(out, AttemptKey.Int64(int64(a.Attempt)))
	}
	return out
}

type aboutKey struct{}

// WithAbout returns a context that adds the attributes of a to its spans, including spans of
// libraries.
func WithAbout(ctx context.Context, a About) context.Context {
	return context.WithValue(ctx, aboutKey{}, &a)
}

// Describe adds the attributes of a to the span of ctx and to the spans below it. Use it if the
// span began before the attributes were known. It costs nothing if there is no span.
func Describe(ctx context.Context, a About) context.Context {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return ctx
	}
	span.SetAttributes(a.attributes()...)
	return WithAbout(ctx, a)
}

// Describer adds the attributes of WithAbout to every span of the context.
type Describer struct{}

var _ sdktrace.SpanProcessor = Describer{}

// OnStart implements sdktrace.SpanProcessor.
func (Describer) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if a, ok := ctx.Value(aboutKey{}).(*About); ok {
		s.SetAttributes(a.attributes()...)
	}
}

// OnEnd implements sdktrace.SpanProcessor.
func (Describer) OnEnd(sdktrace.ReadOnlySpan) {}

// Shutdown implements sdktrace.SpanProcessor.
func (Describer) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdktrace.SpanProcessor.
func (Describer) ForceFlush(context.Context) error { return nil }
