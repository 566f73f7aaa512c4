// Package meter counts images and package environments that a worker fetches for jobs, and their
// removal to make room. Each fetch is also a span in the trace of the first job that needs it.
//
// No call fails: the instruments' names and units are constants, and without telemetry the counts
// are dropped.
package meter

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// Fetching counts fetches of one kind: pulled images, built environments.
type Fetching struct {
	kind  string
	count metric.Int64Counter
	bytes metric.Int64Counter
	took  metric.Float64Histogram
}

// scope is the library name of the instruments. It must not change, because users select
// instruments by it.
const scope = "github.com/assay-run/assay/pkg/runtime/containerd"

// NewPulls counts pulled images. It, NewBuilds and NewFetches spell out their instruments' names,
// so that a search finds them.
func NewPulls() *Fetching {
	m, f := otel.Meter(scope), &Fetching{kind: "image"}
	// These names and units are constants, so errors are impossible.
	f.count, _ = m.Int64Counter("assay_image_pulls", metric.WithDescription("Images pulled from registries, by result."))
	f.bytes, _ = m.Int64Counter("assay_image_pull_bytes", metric.WithDescription("Compressed bytes of pulled images."))
	f.took, _ = m.Float64Histogram("assay_image_pull_milliseconds", fetchBuckets, metric.WithDescription("Duration of an image pull, including unpacking."))
	return f.zero()
}

// NewBuilds counts environments built here.
func NewBuilds() *Fetching {
	m, f := otel.Meter(scope), &Fetching{kind: "environment"}
	f.count, _ = m.Int64Counter("assay_environment_builds", metric.WithDescription("Package environments built, by result."))
	f.bytes, _ = m.Int64Counter("assay_environment_build_bytes", metric.WithDescription("Bytes of built environments."))
	f.took, _ = m.Float64Histogram("assay_environment_build_milliseconds", fetchBuckets, metric.WithDescription("Duration of an environment build, including its wait for a turn."))
	return f.zero()
}

// NewFetches counts fetched environments that other workers built.
func NewFetches() *Fetching {
	m, f := otel.Meter(scope), &Fetching{kind: "environment of others"}
	f.count, _ = m.Int64Counter("assay_environment_fetches", metric.WithDescription("Package environments fetched that other workers built, by result; refused means wrong content."))
	f.bytes, _ = m.Int64Counter("assay_environment_fetch_bytes", metric.WithDescription("Unpacked bytes of fetched environments."))
	f.took, _ = m.Float64Histogram("assay_environment_fetch_milliseconds", fetchBuckets, metric.WithDescription("Duration of an environment fetch, including its wait for a turn and the check."))
	return f.zero()
}

var fetchBuckets = metric.WithExplicitBucketBoundaries(100, 250, 500, 1e3, 2.5e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5)

// zero initializes the counters, because a counter without a first value has no rate.
func (f *Fetching) zero() *Fetching {
	for _, result := range []string{"ok", "refused", "error"} {
		f.count.Add(context.Background(), 0, metric.WithAttributes(attribute.String("result", result)))
	}
	f.bytes.Add(context.Background(), 0)
	return f
}

// Begin records the start of a fetch with a name. The returned function records its end. A nil
// Fetching counts nothing.
func (f *Fetching) Begin(ctx context.Context, name string) (context.Context, func(bytes int64, err error)) {
	if f == nil {
		return ctx, func(int64, error) {}
	}
	began := time.Now()
	ctx, span := otel.Tracer(scope).Start(ctx, "fetch", trace.WithAttributes(
		attribute.String("assay.kind", f.kind), attribute.String("assay.name", name)))
	return ctx, func(bytes int64, err error) {
		span.SetAttributes(attribute.Int64("assay.bytes", bytes))
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
		f.count.Add(ctx, 1, metric.WithAttributes(attribute.String("result", Result(err))))
		f.took.Record(ctx, job.Milliseconds(time.Since(began)))
		if err == nil {
			f.bytes.Add(ctx, bytes)
		}
	}
}

// Result returns "ok", "refused" if the requested object is unavailable, and "error" after a
// failure of ours.
func Result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case runtime.Refused(err):
		return "refused"
	}
	return "error"
}
