package meter

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Removed counts and logs removals to make room. The zero value only logs.
type Removed struct{ count, bytes metric.Int64Counter }

// NewRemoved counts images and environments, by kind.
func NewRemoved() (r Removed) {
	m := otel.Meter(scope)
	// These names and units are constants, so errors are impossible.
	r.count, _ = m.Int64Counter("assay_collected", metric.WithDescription("Images and environments evicted to free space, by kind."))
	r.bytes, _ = m.Int64Counter("assay_collected_bytes", metric.WithDescription("Bytes freed by eviction, by kind."))
	return r
}

// Note records a removal and its size in bytes.
func (r Removed) Note(ctx context.Context, kind, name string, bytes int64) {
	slog.InfoContext(ctx, "evicted to free space", "kind", kind, "name", name, "bytes", bytes)
	if r.count != nil {
		of := metric.WithAttributes(attribute.String("kind", kind))
		r.count.Add(ctx, 1, of)
		r.bytes.Add(ctx, bytes, of)
	}
}
