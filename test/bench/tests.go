package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/examples/humaneval"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// tests grades the whole example, reference and wrong solutions, repeatedly until the time is over,
// and counts the wrong verdicts.
func tests(ctx context.Context, b *bench) (r Report, err error) {
	t, isolation, note, err := b.cellTarget(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	specs := humaneval.Batch(string(isolation))
	b.logf("warming up")
	if _, _, err := t.gradeBatch(ctx, specs[:20]); err != nil {
		return nil, err
	}
	b.logf("measuring")
	var wrong atomic.Int64
	grade := func(ctx context.Context) (outcome, error) {
		o, bad, err := t.gradeBatch(ctx, specs)
		wrong.Add(int64(bad))
		return o, err
	}
	var sum outcome
	before, beforeErr := t.cpuNow() // of the bench's own fleet only
	if b.n > 0 {
		for sum.jobs < b.n && err == nil {
			var o outcome
			o, err = grade(ctx)
			sum.add(o)
		}
	} else {
		sum, err = twoUnderWay(ctx, b.duration, grade)
	}
	if err != nil {
		return nil, err
	}
	after, afterErr := t.cpuNow()
	ms, err := t.latencies(ctx, sum.batches, 10_000)
	if err != nil {
		return nil, err
	}
	r = sum.report(ms)
	delete(r, "errors")
	r["wrong_verdicts"] = wrong.Load()
	if beforeErr == nil && afterErr == nil {
		r["cpu_ms_per_job"] = after.perJob(before, sum.jobs)
	}
	r.Noted(isolation, note)
	return r, nil
}

// gradeBatch runs one batch to its end and returns the number of wrong or missing verdicts.
func (t *target) gradeBatch(ctx context.Context, specs []job.Spec) (o outcome, wrong int, err error) {
	began := time.Now()
	b, err := t.SubmitSpecs(ctx, client.BatchOptions{Name: "tests"}, slices.Values(specs))
	if err != nil {
		return o, 0, fmt.Errorf("submit: %w", err)
	}
	for !b.Done() {
		if b, err = t.Batch(ctx, b.ID, 20*time.Second); err != nil {
			return o, 0, fmt.Errorf("wait: %w", err)
		}
	}
	o = outcome{jobs: len(specs), took: time.Since(began), batches: []job.ID{b.ID}}
	right := map[string]bool{}
	for raw, err := range t.Results(ctx, b.ID, true) {
		if err != nil {
			return o, 0, err
		}
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			return o, 0, err
		}
		if humaneval.Verdict(r) {
			right[r.Name] = true
		}
	}
	return o, len(specs) - len(right), nil
}
