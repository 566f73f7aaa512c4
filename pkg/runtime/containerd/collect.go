package containerd

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// collected counts what was collected, and says so.
type collected struct{ count, bytes metric.Int64Counter }

func newCollected() collected {
	m := otel.Meter("github.com/assay-run/assay/pkg/runtime/containerd")
	var c collected
	// Instruments of these names and units cannot be wrong.
	c.count, _ = m.Int64Counter("assay_collected", metric.WithDescription("Pulled images and built environments that were removed to make room, by kind."))
	c.bytes, _ = m.Int64Counter("assay_collected_bytes", metric.WithDescription("What they took."))
	return c
}

func (c collected) note(ctx context.Context, kind, name string, bytes int64) {
	slog.InfoContext(ctx, "removed to make room", "kind", kind, "name", name, "bytes", bytes)
	if c.count != nil {
		of := metric.WithAttributes(attribute.String("kind", kind))
		c.count.Add(ctx, 1, of)
		c.bytes.Add(ctx, bytes, of)
	}
}

// tidy collects what could not be collected when its space became full, since all of
// it was in use then.
func (r *Runtime) tidy() {
	tick := time.NewTicker(max(r.cfg.WarmIdle/4, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		if r.images.full.Load() {
			if _, err := r.images.collect(r.ctx, ""); err != nil && !errors.Is(err, context.Canceled) && r.ctx.Err() == nil {
				slog.WarnContext(r.ctx, "cannot collect images", "error", err)
			}
		}
		if err := r.environments.Tidy(); err != nil {
			slog.WarnContext(r.ctx, "cannot collect environments", "error", err)
		}
	}
}

// restOn has the environments on an image's root file system let go of it.
func (r *Runtime) restOn(chain string) {
	if base := r.images.mounted(chain); base != nil && r.environments != nil {
		r.environments.rest(base)
	}
}
