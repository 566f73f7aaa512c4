package main

import "context"

func command(ctx context.Context, b *bench) (report, error) { return b.inCells(ctx, trueJob) }
