package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

const (
	casesOf     = 20 // cases of one submission
	casesAtOnce = 4  // submissions at once
	casesRounds = 4  // rounds in which the two alternate
	adding      = "a, b = map(int, input().split())\nprint(a + b)"
)

// cases measures submissions of twenty cases each in two ways, which alternate: one request for
// each case in the format of SandboxFusion, as verl's reward function sends, and one job with
// tests.
func cases(ctx context.Context, b *bench) (r Report, err error) {
	t, isolation, note, err := b.cellTarget(ctx, "ASSAY_DROP_INS=sandboxfusion")
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	tests, questions := job.Tests{Language: "python", Code: adding}, []fusionQuestion{}
	for i := range casesOf {
		in, out := fmt.Sprintf("%d %d\n", i, i), fmt.Sprintln(2*i)
		tests.Stdio = append(tests.Stdio, job.Stdio{Stdin: in, Stdout: out})
		questions = append(questions, askFusionWith(adding, in, out, 10))
	}
	spec := pythonJob(isolation)
	spec.Program = job.Program{Tests: &tests}
	var native, dropIn rated
	for round := range 1 + casesRounds {
		if round == 1 { // the first round is the warm-up
			native, dropIn = rated{}, rated{}
		}
		err = dropIn.run(ctx, b.duration/(2*casesRounds), func() (bool, error) { return allFusion(ctx, t.url, questions) })
		if err == nil {
			err = native.run(ctx, b.duration/(2*casesRounds), func() (bool, error) {
				res, err := t.Run(ctx, spec)
				return err == nil && res.Outcome == job.Succeeded && res.Tests.Passed == casesOf, err
			})
		}
		if err != nil {
			return nil, err
		}
	}
	a, c := Rate(native.n, native.took), Rate(dropIn.n, dropIn.took)
	r = Report{
		"cases": casesOf, "jobs": native.n, "seconds": Round(native.took.Seconds(), 3), "jobs_per_s": a,
		"drop_in_submissions": dropIn.n, "drop_in_per_s": c, "factor": Round(a/c, 2), "not_right": native.bad + dropIn.bad,
	}
	r.Noted(isolation, note)
	return r, nil
}

// rated counts submissions, and those with a wrong verdict.
type rated struct {
	n, bad int
	took   time.Duration
}

// run judges submissions for d, some at a time.
func (s *rated) run(ctx context.Context, d time.Duration, judge func() (bool, error)) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	began := time.Now()
	for range casesAtOnce {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				right, err := judge()
				mu.Lock()
				s.n++
				if !right {
					s.bad++
				}
				if err != nil {
					failed = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	s.took += time.Since(began)
	return failed
}
