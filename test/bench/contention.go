package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// The programs of contention, and their limit.
const (
	contendedPerCore = 20  // busy programs, unless -n sets their total
	contendedCPU     = 1.0 // seconds of CPU time of each
	contendedWall    = "2500ms"
	contendedLate    = 2 // programs of each late kind, for each core
)

// contention runs many more busy programs than there are cores. Each works for one second under a
// limit of 2.5 s, which all of them keep on an idle machine: "falsely_timed_out" counts the others.
// Half as many programs sleep. A few of both kinds are always late: "not_timed_out" of those should
// be 0.
//
// A client runs one toy program after the other: "toy_p95_ms". "makespan_ratio" is the time of all,
// relative to the CPU time that they need on all cores. A toy counts there as the same program in a
// process of its own, without any others. "makespan_toys_free" is the same without the cost of
// toys.
func contention(ctx context.Context, b *bench) (r Report, err error) {
	t, isolation, note, err := b.cellTarget(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	limited := json.RawMessage(fmt.Sprintf(`{"isolation":%q,"wall":%q,"cpu":1}`, isolation, contendedWall))
	spec := func(code string) job.Spec {
		return job.Spec{Image: "python", Policy: limited, Program: job.Program{Python: &job.Python{Code: code}}}
	}
	work := func(seconds float64) job.Spec {
		return spec(fmt.Sprintf("import time\nwhile time.process_time() < %g: pass", seconds))
	}
	sleep := func(seconds float64) job.Spec { return spec(fmt.Sprintf("import time; time.sleep(%g)", seconds)) }
	toy := spec("print(1+1)")
	for range 10 { // warm-up
		if _, err := t.Run(ctx, toy); err != nil {
			return nil, err
		}
	}
	toyNeeds, err := bareCPU(ctx, toy.Program.Python.Code, 20)
	if err != nil {
		return nil, err
	}
	cores := runtime.NumCPU()
	n := contendedPerCore * cores
	if b.n > 0 {
		n = b.n
	}
	late := contendedLate * cores
	kinds := []struct {
		spec job.Spec
		n    int
		want job.Outcome
		took time.Duration
		got  map[job.Outcome]int64
	}{
		{spec: work(contendedCPU), n: n, want: job.Succeeded}, {spec: sleep(contendedCPU), n: n / 2, want: job.Succeeded},
		{spec: work(60), n: late, want: job.TimedOut}, {spec: sleep(60), n: late, want: job.TimedOut},
	}
	b.logf("measuring")
	began := time.Now()
	all, running := errgroup.WithContext(ctx)
	for i := range kinds {
		k := &kinds[i]
		all.Go(func() error {
			body, err := lines(k.spec, k.n)
			if err != nil {
				return err
			}
			k.got, err = t.outcomesOf(running, body)
			k.took = time.Since(began)
			return err
		})
	}
	toys, stop := context.WithCancel(ctx)
	var ms []float64
	wrong := 0
	asked := make(chan error, 1)
	go func() {
		for toys.Err() == nil {
			sent := time.Now()
			res, err := t.Run(toys, toy)
			if err != nil {
				if toys.Err() != nil {
					err = nil // all other jobs are over
				}
				asked <- err
				return
			}
			ms = append(ms, job.Milliseconds(time.Since(sent)))
			if res.Outcome != job.Succeeded {
				wrong++
			}
			time.Sleep(50 * time.Millisecond)
		}
		asked <- nil
	}()
	err = all.Wait()
	stop()
	if toyErr := <-asked; err == nil {
		err = toyErr
	}
	if err != nil {
		return nil, err
	}
	took := time.Duration(0)
	untrue, missed := wrong, 0
	for _, k := range kinds {
		took = max(took, k.took)
		if k.want == job.Succeeded {
			untrue += k.n - int(k.got[job.Succeeded])
		} else {
			missed += k.n - int(k.got[job.TimedOut])
		}
	}
	need := float64(n)*contendedCPU + float64(late)*2.5
	makespan := func(need float64) float64 { return Round(took.Seconds()/(need/float64(cores)), 3) }
	r = Report{
		"programs": n, "toys": len(ms), "falsely_timed_out": untrue, "not_timed_out": missed, "seconds": Round(took.Seconds(), 3),
		"makespan_ratio": makespan(need + float64(len(ms))*toyNeeds.Seconds()), "makespan_toys_free": makespan(need),
		"toy_cpu_ms": Round(job.Milliseconds(toyNeeds), 3), "toy_p50_ms": Percentile(ms, 0.5), "toy_p95_ms": Percentile(ms, 0.95),
	}
	r.Noted(isolation, note)
	return r, nil
}

// outcomesOf submits a batch and returns the outcomes of its jobs.
func (t *target) outcomesOf(ctx context.Context, body []byte) (map[job.Outcome]int64, error) {
	batch, err := t.SubmitBatch(ctx, client.BatchOptions{}, bytes.NewReader(body))
	for err == nil && !batch.Done() {
		batch, err = t.Batch(ctx, batch.ID, 20*time.Second)
	}
	if err != nil {
		return nil, fmt.Errorf("run %d bytes of jobs: %w", len(body), err)
	}
	return batch.Outcomes, nil
}
