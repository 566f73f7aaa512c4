package containerd

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// tidy retries the collection of images and environments that were in use when their space became
// full.
func (r *Runtime) tidy() {
	ctx := r.background.Context()
	tick := time.NewTicker(max(r.cfg.WarmIdle/4, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.images.Tidy(ctx); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			slog.WarnContext(ctx, "image garbage collection failed", "error", err)
		}
		if err := r.environments.Tidy(); err != nil {
			slog.WarnContext(ctx, "environment garbage collection failed", "error", err)
		}
	}
}
