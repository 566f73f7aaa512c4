package meter

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Removed counts what was removed to make room, and says so. The zero value only says so.
type Removed struct{ count, bytes metric.Int64Counter }

// NewRemoved counts images and environments, by kind.
func NewRemoved() (r Removed) {
	m := otel.Meter(scope)
	// Instruments of these names and units cannot be wrong.
	r.count, _ = m.Int64Counter("assay_collected", metric.WithDescription("Pulled images and built environments that were removed to make room, by kind."))
	r.bytes, _ = m.Int64Counter("assay_collected_bytes", metric.WithDescription("What they took."))
	return r
}

// Note says that one of a kind was removed, and how many bytes it took.
func (r Removed) Note(ctx context.Context, kind, name string, bytes int64) {
	slog.InfoContext(ctx, "removed to make room", "kind", kind, "name", name, "bytes", bytes)
	if r.count != nil {
		of := metric.WithAttributes(attribute.String("kind", kind))
		r.count.Add(ctx, 1, of)
		r.bytes.Add(ctx, bytes, of)
	}
}
