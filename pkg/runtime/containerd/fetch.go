package containerd

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// fetching counts how one kind of thing is brought here that jobs run on: an image
// that is pulled, an environment that is built. Each is a span, in the trace of the
// job that was the first to want it.
type fetching struct {
	kind  string
	count metric.Int64Counter
	bytes metric.Int64Counter
	took  metric.Float64Histogram
}

const scope = "github.com/assay-run/assay/pkg/runtime/containerd"

// newPulls and newBuilds name their instruments in full, so that they can be found.
func newPulls() *fetching {
	m, f := otel.Meter(scope), &fetching{kind: "image"}
	// Instruments of these names and units cannot be wrong.
	f.count, _ = m.Int64Counter("assay_image_pulls", metric.WithDescription("Images pulled from registries, by result."))
	f.bytes, _ = m.Int64Counter("assay_image_pull_bytes", metric.WithDescription("Compressed bytes of the images that were pulled."))
	f.took, _ = m.Float64Histogram("assay_image_pull_milliseconds", fetchBuckets, metric.WithDescription("Time of a pull, unpacking included."))
	return f.zero()
}

func newBuilds() *fetching {
	m, f := otel.Meter(scope), &fetching{kind: "environment"}
	f.count, _ = m.Int64Counter("assay_environment_builds", metric.WithDescription("Environments of packages built, by result."))
	f.bytes, _ = m.Int64Counter("assay_environment_build_bytes", metric.WithDescription("Bytes of the environments that were built."))
	f.took, _ = m.Float64Histogram("assay_environment_build_milliseconds", fetchBuckets, metric.WithDescription("Time of a build, the wait for its turn included."))
	return f.zero()
}

func newFetches() *fetching {
	m, f := otel.Meter(scope), &fetching{kind: "environment of others"}
	f.count, _ = m.Int64Counter("assay_environment_fetches", metric.WithDescription("Environments of packages fetched that other workers had built, by result: refused ones were something else."))
	f.bytes, _ = m.Int64Counter("assay_environment_fetch_bytes", metric.WithDescription("Bytes of the environments that were fetched, unpacked."))
	f.took, _ = m.Float64Histogram("assay_environment_fetch_milliseconds", fetchBuckets, metric.WithDescription("Time of a fetch, the wait for its turn and the check included."))
	return f.zero()
}

var fetchBuckets = metric.WithExplicitBucketBoundaries(100, 250, 500, 1e3, 2.5e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5)

// zero has the counters there before anything is counted: what rises from nothing has
// no rate.
func (f *fetching) zero() *fetching {
	for _, result := range []string{"ok", "refused", "error"} {
		f.count.Add(context.Background(), 0, metric.WithAttributes(attribute.String("result", result)))
	}
	f.bytes.Add(context.Background(), 0)
	return f
}

// begin begins one. The function that it returns ends it. A nil one counts nothing.
func (f *fetching) begin(ctx context.Context, name string) (context.Context, func(bytes int64, err error)) {
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
		f.count.Add(ctx, 1, metric.WithAttributes(attribute.String("result", resultOf(err))))
		f.took.Record(ctx, job.Milliseconds(time.Since(began)))
		if err == nil {
			f.bytes.Add(ctx, bytes)
		}
	}
}

// resultOf tells what a job wants that cannot be had from what failed of ours.
func resultOf(err error) string {
	failure := new(runtime.BuildError)
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, job.ErrInvalid), errors.As(err, &failure):
		return "refused"
	}
	return "error"
}
