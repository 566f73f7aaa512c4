// Package pause waits for a time, or for the end of a context.
package pause

import (
	"context"
	"time"
)

// For waits for d or until ctx ends. It returns the error of ctx if ctx ends first.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
