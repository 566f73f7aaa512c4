package main

import (
	"context"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

func python(ctx context.Context, b *bench) (Report, error) { return b.inCells(ctx, pythonJob) }

// inCells measures batches of jobs in isolation cell, or the isolation that replaces it.
func (b *bench) inCells(ctx context.Context, spec func(policy.Isolation) job.Spec) (r Report, err error) {
	t, isolation, note, err := b.cellTarget(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	if r, err = b.measured(ctx, t, spec(isolation), 50); err != nil {
		return nil, err
	}
	r.Noted(isolation, note)
	return r, nil
}
