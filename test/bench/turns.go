package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// fleetStart is the time for both fleets to start before they alternate.
	fleetStart = 4 * time.Second
	// turn is how long one fleet runs while the other is stopped. It is far below the seconds in
	// which a machine's speed changes, and far above the cost of a stop.
	turn = 700 * time.Millisecond
)

// Comparison measures a scenario in two builds of this project. Their fleets alternate: while one
// runs, all processes of the other are stopped. So both have the same conditions. The speed of a
// machine may change by a third between consecutive runs.
type Comparison struct {
	Scenario string
	Duration time.Duration // of each of the two runs
	Rounds   int
	Trees    [2]string // directories with bin/bench: the measured build, and the build to compare with
	Logf     func(format string, args ...any)
}

// ratios maps each figure of a report ("cpu_ms_per_job.all") to the quotients of the first build's
// figure and the second's, one for each round.
type ratios map[string][]float64

// Run returns the ratios and their medians: {"ratio": {figure: median}, "rounds": {figure: [ratio,
// …]}}. Figures of elapsed time ("jobs_per_s") include the stops, so only their ratios are
// meaningful.
func (c *Comparison) Run(ctx context.Context) (Report, error) {
	all := ratios{}
	for i := range c.Rounds {
		reports, err := c.round(ctx, i%2)
		if err != nil {
			return nil, err
		}
		all.add(figures(reports[0]), figures(reports[1]))
		c.Logf("round %d of %d: %v", i+1, c.Rounds, reports)
	}
	medians := map[string]float64{}
	for name, of := range all {
		medians[name] = Percentile(of, 0.5)
	}
	return Report{"beside": c.Trees[1], "ratio": medians, "rounds": all}, nil
}

// round measures both builds once. first (0 or 1) gets the first turn.
func (c *Comparison) round(ctx context.Context, first int) (reports [2]Report, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var runs [2]*benchProcess
	for i, tree := range c.Trees {
		if runs[i], err = c.start(ctx, tree); err != nil {
			break
		}
		defer runs[i].end()
	}
	if err != nil {
		return reports, err
	}
	takeTurns(ctx, runs, first)
	for i, r := range runs {
		if reports[i], err = r.report(); err != nil {
			return reports, fmt.Errorf("bin/bench of %s: %w", c.Trees[i], err)
		}
	}
	return reports, nil
}

// takeTurns lets both start, and then run alternately until one has ended. One of them may get a
// turn more than the other, or end while the other is stopped. So the rounds begin with different
// ones, and -duration should be many turns.
func takeTurns(ctx context.Context, runs [2]*benchProcess, first int) {
	next := time.After(fleetStart)
	for running := first; ; running = 1 - running {
		select {
		case <-next:
		case <-runs[0].ended:
		case <-runs[1].ended:
		case <-ctx.Done():
		}
		ended := ctx.Err() != nil || runs[0].hasEnded() || runs[1].hasEnded()
		for i, r := range runs {
			if i == running || ended {
				r.signal(syscall.SIGCONT)
			} else {
				r.signal(syscall.SIGSTOP)
			}
		}
		if ended {
			return
		}
		next = time.After(turn)
	}
}

// benchProcess is the bench of one build, which has a fleet of its own below it.
type benchProcess struct {
	cmd         *exec.Cmd
	out, errOut bytes.Buffer
	ended       chan struct{}
	err         error // set before ended is closed
}

func (c *Comparison) start(ctx context.Context, tree string) (*benchProcess, error) {
	program, err := filepath.Abs(filepath.Join(tree, "bin", "bench"))
	if err != nil {
		return nil, err
	}
	p := &benchProcess{ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program, "-scenario", c.Scenario, "-json", "-duration", (2 * c.Duration).String())
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = tree, &p.out, &p.errOut
	p.cmd.Cancel = func() error { // it ends its fleet itself
		p.signal(syscall.SIGCONT)
		return p.cmd.Process.Signal(os.Interrupt)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("-beside: a directory in which `make setup build image` was called is needed: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// signal sends sig to the bench and all processes below it: its client, dispatcher, worker,
// Postgres, containerd. Programs in sandboxes are not below it. They finish their work, and then
// have none.
func (p *benchProcess) signal(sig syscall.Signal) {
	all, err := readProcesses()
	if err != nil || p.hasEnded() {
		return
	}
	for _, of := range descendants(all, p.cmd.Process.Pid) {
		_ = syscall.Kill(of.PID, sig) // it may have ended
	}
}

func (p *benchProcess) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// report waits for the end and returns the printed report.
func (p *benchProcess) report() (r Report, err error) {
	<-p.ended
	if p.err != nil {
		return nil, errors.Join(p.err, errors.New(p.errOut.String()))
	}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		return nil, fmt.Errorf("it printed no JSON object: %w", err)
	}
	return r, nil
}

// end stops a bench that has not ended and waits for it.
func (p *benchProcess) end() {
	p.signal(syscall.SIGCONT)
	if !p.hasEnded() {
		_ = p.cmd.Process.Signal(os.Interrupt)
	}
	<-p.ended
}

// figures returns the numbers of a report. Numbers of an inner object are named "object.field".
func figures(r map[string]any) map[string]float64 {
	all := map[string]float64{}
	for name, value := range r {
		switch v := value.(type) {
		case float64:
			all[name] = v
		case map[string]any:
			for inner, f := range figures(v) {
				all[name+"."+inner] = f
			}
		}
	}
	delete(all, "cores")
	return all
}

// add adds a round: the figures that both builds report, if the second is not 0.
func (r ratios) add(a, b map[string]float64) {
	for name := range a {
		if b[name] != 0 {
			r[name] = append(r[name], a[name]/b[name])
		}
	}
}
