package main

import (
	"context"

	"github.com/assay-run/assay/pkg/policy"
)

// noopEnv makes a fleet whose worker runs no programs.
const noopEnv = "ASSAY_RUNTIME=noop"

// noop measures all steps except running: accept, schedule, deliver, claim, record.
func noop(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, noopEnv)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	return b.measured(ctx, t, pythonJob(policy.Task), 2000)
}
