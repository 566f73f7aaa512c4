package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

func pythonJob(isolation policy.Isolation) job.Spec {
	return job.Spec{Image: "python", Policy: policyOf(isolation), Program: job.Program{Python: &job.Python{Code: "print(1+1)"}}}
}

func trueJob(isolation policy.Isolation) job.Spec {
	return job.Spec{Image: "python", Policy: policyOf(isolation), Program: job.Program{Command: &job.Command{Argv: []string{"/bin/true"}}}}
}

func policyOf(isolation policy.Isolation) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"isolation":%q}`, isolation))
}

// lines returns n equal jobs as JSON Lines.
func lines(spec job.Spec, n int) ([]byte, error) {
	one, err := json.Marshal(spec)
	return bytes.Repeat(append(one, '\n'), n), err
}

// outcome is the result of a load.
type outcome struct {
	jobs    int
	errors  int // recorded with an outcome other than succeeded
	took    time.Duration
	batches []job.ID
}

func (o *outcome) add(other outcome) {
	o.jobs += other.jobs
	o.errors += other.errors
	o.took += other.took
	o.batches = append(o.batches, other.batches...)
}

// runBatch submits n equal jobs and waits until all are recorded.
func (t *target) runBatch(ctx context.Context, spec job.Spec, n int) (o outcome, err error) {
	body, err := lines(spec, n)
	if err != nil {
		return o, err
	}
	began := time.Now()
	b, err := t.SubmitBatch(ctx, client.BatchOptions{}, bytes.NewReader(body))
	if err != nil {
		return o, fmt.Errorf("submit %d jobs: %w", n, err)
	}
	for !b.Done() {
		if b, err = t.Batch(ctx, b.ID, 20*time.Second); err != nil {
			return o, fmt.Errorf("wait for %d jobs: %w", n, err)
		}
	}
	return outcome{n, n - int(b.Outcomes[job.Succeeded]), time.Since(began), []job.ID{b.ID}}, nil
}

// batches keeps the fleet busy with equal jobs: n of them if n is not 0, else for d. The batches
// grow until one takes about a second.
func (t *target) batches(ctx context.Context, spec job.Spec, n int, d time.Duration, first int) (outcome, error) {
	if n > 0 {
		return t.runBatch(ctx, spec, n)
	}
	var size atomic.Int64
	size.Store(int64(first))
	return twoUnderWay(ctx, d, func(ctx context.Context) (outcome, error) {
		mine := size.Load()
		o, err := t.runBatch(ctx, spec, int(mine))
		if o.took < time.Second {
			size.CompareAndSwap(mine, min(2*mine, 10_000))
		}
		return o, err
	})
}

// twoUnderWay runs batches for d, two at any time, to hide the end of each. It returns the sum of
// all. Its took is the time from the first to the last.
func twoUnderWay(ctx context.Context, d time.Duration, run func(context.Context) (outcome, error)) (sum outcome, err error) {
	var mu sync.Mutex
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range 2 {
		group.Go(func() error {
			for time.Since(began) < d && ctx.Err() == nil {
				o, err := run(ctx)
				if err != nil {
					return err
				}
				mu.Lock()
				sum.add(o)
				mu.Unlock()
			}
			return nil
		})
	}
	err = group.Wait()
	sum.took = time.Since(began)
	return sum, err
}

// latencies returns the times of jobs of the batches from acceptance to record, in milliseconds,
// from a sample of at most most jobs.
func (t *target) latencies(ctx context.Context, batches []job.ID, most int) ([]float64, error) {
	var out []float64
	for _, id := range batches {
		want := len(out) + max(most/len(batches), 1)
		for raw, err := range t.Results(ctx, id, false) {
			if err != nil {
				return nil, err
			}
			var r job.Result
			if err := json.Unmarshal(raw, &r); err != nil {
				return nil, err
			}
			g := r.Timings
			out = append(out, g.QueuedMS+g.SlotMS+g.FetchMS+g.RunMS+g.CollectMS+g.RecordMS)
			if len(out) >= want {
				break
			}
		}
	}
	return out, nil
}

// report returns the common fields of a report.
func (o outcome) report(ms []float64) Report {
	return Report{
		"jobs": o.jobs, "errors": o.errors, "seconds": Round(o.took.Seconds(), 3),
		"jobs_per_s": Rate(o.jobs, o.took),
		"p50_ms":     Percentile(ms, 0.50), "p99_ms": Percentile(ms, 0.99),
	}
}

// measured runs batches after a warm-up and reports them.
func (b *bench) measured(ctx context.Context, t *target, spec job.Spec, first int) (Report, error) {
	b.logf("warming up")
	if _, err := t.runBatch(ctx, spec, max(first/4, 10)); err != nil {
		return nil, err
	}
	b.logf("measuring")
	before, beforeErr := t.cpuNow() // of the bench's own fleet only
	o, err := t.batches(ctx, spec, b.n, b.duration, first)
	if err != nil {
		return nil, err
	}
	after, afterErr := t.cpuNow()
	ms, err := t.latencies(ctx, o.batches, 5000)
	if err != nil {
		return nil, err
	}
	r := o.report(ms)
	if beforeErr == nil && afterErr == nil {
		r["cpu_ms_per_job"] = after.perJob(before, o.jobs)
	}
	return r, nil
}

// stopped joins the error of stopping the target to a scenario's own.
func (t *target) stopped(err *error) { *err = errors.Join(*err, t.stop()) }
