package postgres

import (
	"context"
	"errors"

	"github.com/assay-run/assay/pkg/store"
)

// Reap implements store.Scheduler. A step that fails keeps none of the others from being made.
func (s *Store) Reap(ctx context.Context) (st store.ReapStats, err error) {
	err = errors.Join(s.Transitions.Sweep(ctx, &st), s.Submitter.Sweep(ctx, &st), s.Registry.Sweep(ctx, &st))
	return st, err
}
