package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/assay-run/assay/examples/humaneval"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// The load with which canary saturates a machine, and the limit of its programs, which need some
// milliseconds.
const (
	canaryRounds  = 5
	canaryWall    = "2s"
	canaryWork    = 20 // busy programs for each core, in the fleet
	canaryOutside = 2  // busy processes for each core, outside
)

// canary grades the whole example on the idle machine and on a saturated one, round by round. It
// compares the verdicts of each program: "differ" counts the differences.
func canary(ctx context.Context, b *bench) (r Report, err error) {
	t, isolation, note, err := b.cellTarget(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	limited := fmt.Appendf(nil, `{"isolation":%q,"wall":%q}`, isolation, canaryWall)
	specs := humaneval.Batch(string(isolation))
	for i := range specs {
		specs[i].Policy = limited
	}
	rounds := canaryRounds
	if b.n > 0 {
		rounds = b.n
	}
	differ, wrong := 0, 0
	var idle, busy time.Duration
	for i := range rounds {
		b.logf("round %d: idle", i+1)
		alone, took, err := t.verdicts(ctx, specs)
		if err != nil {
			return nil, err
		}
		idle += took
		b.logf("round %d: saturated", i+1)
		relieve, err := t.saturate(ctx, limited)
		if err != nil {
			return nil, err
		}
		beside, took, err := t.verdicts(ctx, specs)
		if err := relieve(err); err != nil {
			return nil, err
		}
		busy += took
		for _, s := range specs {
			if alone[s.Name].verdict != beside[s.Name].verdict {
				differ++
				b.logf("%s: %+v when idle, %+v when saturated", s.Name, alone[s.Name], beside[s.Name])
			}
			if alone[s.Name].outcome != humaneval.Expected(s) {
				wrong++
			}
		}
	}
	r = Report{
		"programs": len(specs), "rounds": rounds, "differ": differ, "wrong_verdicts": wrong,
		"idle_seconds": Round(idle.Seconds()/float64(rounds), 2), "saturated_seconds": Round(busy.Seconds()/float64(rounds), 2),
	}
	r.Noted(isolation, note)
	return r, nil
}

// graded is a verdict with its explanation.
type graded struct {
	verdict
	usage   job.Usage
	message string
}

type verdict struct {
	outcome       job.Outcome
	passed, total int
	first         job.Outcome // of its cases
}

// verdicts grades specs, and returns the time that it took.
func (t *target) verdicts(ctx context.Context, specs []job.Spec) (map[string]graded, time.Duration, error) {
	began := time.Now()
	b, err := t.SubmitSpecs(ctx, client.BatchOptions{Name: "canary"}, slices.Values(specs))
	if err != nil {
		return nil, 0, fmt.Errorf("submit: %w", err)
	}
	all := map[string]graded{}
	for raw, err := range t.Results(ctx, b.ID, true) {
		if err != nil {
			return nil, 0, err
		}
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, 0, err
		}
		g := graded{verdict: verdict{outcome: r.Outcome}, usage: r.Usage, message: r.Message}
		if t := r.Tests; t != nil && len(t.Cases) > 0 {
			g.passed, g.total, g.first, g.message = t.Passed, t.Total, t.Cases[0].Outcome, t.Cases[0].Message
		}
		all[r.Name] = g
	}
	if len(all) != len(specs) {
		return nil, 0, fmt.Errorf("%d results of %d", len(all), len(specs))
	}
	return all, time.Since(began), nil
}

// saturate keeps the cores busy, with programs of the fleet and with others, until the returned
// function is called. That returns its argument, or its own error.
func (t *target) saturate(ctx context.Context, limited json.RawMessage) (relieve func(error) error, err error) {
	var outside []*exec.Cmd
	end := func() {
		for _, c := range outside {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range canaryOutside * runtime.NumCPU() {
		c := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			end()
			return nil, fmt.Errorf("saturate: %w", err)
		}
		outside = append(outside, c)
	}
	var p map[string]any
	if err := json.Unmarshal(limited, &p); err != nil {
		end()
		return nil, err
	}
	p["wall"], p["cpu_time"], p["cpu"] = "10m", "10m", 1
	raw, err := json.Marshal(p)
	if err != nil {
		end()
		return nil, err
	}
	work := job.Spec{Image: "python", Policy: raw, Program: job.Program{Python: &job.Python{Code: "while True: pass"}}}
	b, err := t.SubmitSpecs(ctx, client.BatchOptions{Name: "load"}, slices.Values(slices.Repeat([]job.Spec{work}, canaryWork*runtime.NumCPU())))
	if err != nil {
		end()
		return nil, fmt.Errorf("saturate: %w", err)
	}
	return func(cause error) error {
		end()
		_, err := t.CancelBatch(ctx, b.ID)
		for err == nil && !b.Done() {
			b, err = t.Batch(ctx, b.ID, 20*time.Second)
		}
		if cause != nil {
			return cause
		}
		return err
	}, nil
}
