package object

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/job"
)

// meter counts requests to the store, their duration and the bytes transferred.
type meter struct {
	count, bytes metric.Int64Counter
	took         metric.Float64Histogram
}

// operations lists all counted operations, so that each counter exists before its first use.
var operations = []string{"put", "get", "stat", "delete", "list"}

func newMeter() meter {
	api := otel.Meter("github.com/assay-run/assay/pkg/object")
	var m meter
	// These names and units are constants, so errors are impossible.
	m.count, _ = api.Int64Counter("assay_object_operations", metric.WithDescription("Requests to the object store, by operation and result."))
	m.bytes, _ = api.Int64Counter("assay_object_bytes", metric.WithDescription("Bytes sent to (put) and received from (get) the object store."))
	m.took, _ = api.Float64Histogram("assay_object_milliseconds", metric.WithDescription("Duration of a request to the object store; for get, until the first byte."),
		metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 1e4, 3e4, 6e4, 3e5))
	for _, op := range operations {
		for _, result := range []string{"ok", "error"} {
			m.count.Add(context.Background(), 0, of(op, result))
		}
	}
	for _, op := range operations[:2] {
		m.bytes.Add(context.Background(), 0, metric.WithAttributes(attribute.String("op", op)))
	}
	return m
}

func of(op, result string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("op", op), attribute.String("result", result))
}

// done counts a request. A missing object is a result, not an error.
func (m *meter) done(ctx context.Context, op string, began time.Time, err error) {
	result := "ok"
	if err != nil && !errors.Is(err, job.ErrNotFound) {
		result = "error"
	}
	m.count.Add(ctx, 1, of(op, result))
	m.took.Record(ctx, job.Milliseconds(time.Since(began)), metric.WithAttributes(attribute.String("op", op)))
}

func (m *meter) moved(ctx context.Context, op string, n int64) {
	if n > 0 {
		m.bytes.Add(ctx, n, metric.WithAttributes(attribute.String("op", op)))
	}
}
