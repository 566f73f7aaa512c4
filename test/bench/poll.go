package main

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// smallBatch is the size of the batch that the large batch is compared with.
const smallBatch = 1000

// poll measures GET /v1/batches/{id} on a finished batch. Its cost must not depend on the batch's
// size.
func poll(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, noopEnv)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	n := b.n
	if n == 0 {
		n = 10_000
	}
	small, err := t.runBatch(ctx, pythonJob(policy.Task), min(smallBatch, n))
	if err != nil {
		return nil, err
	}
	b.logf("recording %d jobs", n)
	large, err := t.runBatch(ctx, pythonJob(policy.Task), n)
	if err != nil {
		return nil, err
	}
	b.logf("polling")
	smallMS, _, err := t.pollFor(ctx, small.batches[0], b.duration/2)
	if err != nil {
		return nil, err
	}
	ms, took, err := t.pollFor(ctx, large.batches[0], b.duration/2)
	if err != nil {
		return nil, err
	}
	r = outcome{jobs: n, took: took}.report(ms)
	delete(r, "jobs_per_s")
	r["polls"], r["polls_per_s"] = len(ms), Rate(len(ms), took)
	r["p50_ms_1000"] = Percentile(smallMS, 0.5)
	return r, nil
}

func (t *target) pollFor(ctx context.Context, id job.ID, d time.Duration) (ms []float64, took time.Duration, err error) {
	began := time.Now()
	for time.Since(began) < d {
		sent := time.Now()
		b, err := t.Batch(ctx, id, 0)
		if err != nil {
			return nil, 0, err
		}
		if !b.Done() {
			return nil, 0, fmt.Errorf("batch %s is not done", id)
		}
		ms = append(ms, job.Milliseconds(time.Since(sent)))
	}
	return ms, time.Since(began), nil
}
