package main

import (
	"context"
)

func command(ctx context.Context, b *bench) (Report, error) { return b.inCells(ctx, trueJob) }
