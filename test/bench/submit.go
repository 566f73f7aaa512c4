package main

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// submitBatch is the number of jobs in one request.
const submitBatch = 10_000

// submit measures how fast jobs are accepted, each batch in one request, and the dispatcher's
// memory for that. The worker is stopped meanwhile: other scenarios measure the running of jobs.
func submit(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, noopEnv)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	dispatcher, err := t.child("dispatcher")
	if err != nil {
		return nil, err
	}
	worker, err := t.child("worker")
	if err != nil {
		return nil, err
	}
	if err := syscall.Kill(worker.PID, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("hold the worker: %w", err)
	}
	defer func() { _ = syscall.Kill(worker.PID, syscall.SIGCONT) }()

	n := b.n
	if n == 0 {
		n = 100_000
	}
	var o outcome
	var ms []float64
	for o.jobs < n {
		body, err := lines(pythonJob(policy.Task), min(submitBatch, n-o.jobs))
		if err != nil {
			return nil, err
		}
		sent := time.Now()
		accepted, err := t.SubmitBatch(ctx, client.BatchOptions{}, bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("after %d jobs: %w", o.jobs, err)
		}
		took := time.Since(sent)
		ms = append(ms, job.Milliseconds(took))
		o.took += took
		o.jobs += int(accepted.Total)
	}
	peak, err := dispatcher.Kilobytes("status", "VmHWM")
	if err != nil {
		return nil, err
	}
	r = o.report(ms) // percentiles are of one request
	r["rss_peak_mb"] = Round(float64(peak)/1024, 1)
	return r, nil
}
