package main

import (
	"context"

	"github.com/assay-run/assay/test/bench/stats"
)

func command(ctx context.Context, b *bench) (stats.Report, error) { return b.inCells(ctx, trueJob) }
