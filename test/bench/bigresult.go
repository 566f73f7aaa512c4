package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

const (
	bigOutput = 16 << 20               // bytes, the most that a policy allows
	bigEvery  = 500 * time.Millisecond // between two jobs with large output
	bigMost   = 4                      // at once; more are skipped
)

// bigresult measures small jobs alone, then beside jobs that write 16 MiB to /dev/null, then beside
// jobs whose output of 16 MiB is kept. Two of the large jobs run a second. Writing costs the same
// in both cases. So "ratio", the last rate to the second, is the cost of large results for other
// jobs.
func bigresult(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	isolation, note, err := t.isolation(ctx, policy.Cell)
	if err != nil {
		return nil, err
	}
	b.logf("warming up")
	spec := pythonJob(isolation)
	if _, err := t.runBatch(ctx, spec, 100); err != nil {
		return nil, err
	}
	var sum outcome
	measure := func(what, code string) (jobs float64, larges int64, err error) {
		b.logf("%s", what)
		larger := t.keepWriting(ctx, isolation, code)
		o, err := t.batches(ctx, spec, b.n, b.duration/3, 50)
		n, lerr := larger()
		if err == nil {
			err = lerr
		}
		sum.add(o)
		return Rate(o.jobs, o.took), n, err
	}
	alone, _, err := measure("small jobs alone", "")
	if err != nil {
		return nil, err
	}
	write := fmt.Sprintf(`.write("x" * %d)`, bigOutput)
	dropped, many, err := measure("beside jobs that write to nowhere", `open("/dev/null", "w")`+write+"; None")
	if err != nil {
		return nil, err
	}
	kept, large, err := measure("beside jobs with large outputs", "import sys\nsys.stdout"+write+"; None")
	if err != nil {
		return nil, err
	}
	dispatcher, err := t.child("dispatcher")
	if err != nil {
		return nil, err
	}
	peak, err := dispatcher.Kilobytes("status", "VmHWM")
	if err != nil {
		return nil, err
	}
	ms, err := t.latencies(ctx, sum.batches, 4000)
	if err != nil {
		return nil, err
	}
	r = sum.report(ms)
	r["jobs_per_s_alone"], r["jobs_per_s_dropped"], r["jobs_per_s_kept"] = alone, dropped, kept
	r["large_dropped"], r["large_kept"], r["rss_peak_mb"] = many, large, Round(float64(peak)/1024, 1)
	r["ratio"], r["ratio_alone"] = Round(kept/dropped, 3), Round(kept/alone, 3)
	r.Noted(isolation, note)
	return r, nil
}

// keepWriting runs jobs with some code at an even pace until done is called, which returns their
// number. Without code it does nothing.
func (t *target) keepWriting(ctx context.Context, isolation policy.Isolation, code string) (done func() (int64, error)) {
	if code == "" {
		return func() (int64, error) { return 0, nil }
	}
	spec := pythonJob(isolation)
	spec.Program.Python.Code = code
	spec.Policy = fmt.Appendf(nil, `{"isolation":%q,"stdout":{"limit":"16Mi"}}`, isolation)
	pacing, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	var n atomic.Int64
	failed := make(chan error, 1)
	places := make(chan struct{}, bigMost)
	one := func() {
		defer func() { <-places }()
		res, err := t.Run(ctx, spec)
		if err == nil && (res.Outcome != job.Succeeded || code[0] == 'i' && res.Stdout.Bytes < bigOutput) {
			err = fmt.Errorf("a job that writes: %s with %d bytes of output: %s", res.Outcome, res.Stdout.Bytes, res.Message)
		}
		if err != nil {
			select {
			case failed <- err:
			default:
			}
			return
		}
		n.Add(1)
	}
	running.Go(func() {
		for {
			select {
			case places <- struct{}{}:
				running.Go(one)
			default: // the most are running
			}
			if pause.For(pacing, bigEvery) != nil {
				return
			}
		}
	})
	return func() (int64, error) {
		stop()
		running.Wait()
		select {
		case err := <-failed:
			return n.Load(), err
		default:
			return n.Load(), nil
		}
	}
}
