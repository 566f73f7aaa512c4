package pause

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct{ ends, d, want time.Duration }{
			"over first":      {time.Hour, time.Second, time.Second},
			"context first":   {time.Second, time.Hour, time.Second},
			"nothing to wait": {time.Hour, -time.Second, 0},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), c.ends)
			began := time.Now()
			err := For(ctx, c.d)
			if took := time.Since(began); took != c.want || (err != nil) != (c.ends < c.d) {
				t.Errorf("%s: %v, %v, want %v", name, took, err, c.want)
			}
			cancel()
		}
	})
}
