package grade

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// interaction is a program and an interactor that communicate. The worker sees the end of either
// one before the other does. So the first to end did so by itself. See docs/adr/0033.
type interaction struct {
	*grading
	k       *checker
	said    notes
	asks    *wire // from the interactor
	answers *wire // from the program
	flooded bool  // the program wrote more than the interactor's limit
	settled bool  // the interactor ended first and decided

	made time.Duration // time to create the program's sandbox, while the interactor's clock stood
}

// end is how one of the two ended.
type end struct {
	rep *runtime.Report
	err error
}

// interact runs the program of a case with the interactor, which judges it.
func (g *grading) interact(ctx context.Context, s *job.Stdio, d *caseData, limits job.CaseLimits) (job.CaseResult, error) {
	began := time.Now()
	k, err := g.ready("interactor", g.Tests.Interactor)
	if err != nil {
		return job.CaseResult{}, err
	}
	if k.program.Problem != "" {
		var c job.CaseResult
		g.fault(&c, "the interactor cannot be started: "+k.program.Problem)
		return c, nil
	}
	t := &interaction{grading: g, k: k, said: notes{}}
	a, started := g.scriptAttempt(s, limits)
	candidate, interactor, err := t.both(ctx, a, d, limits)
	if err == nil {
		err = errors.Join(started(candidate), k.program.missing(interactor))
	}
	if err != nil {
		return job.CaseResult{}, err
	}
	if ctx.Err() != nil { // any cause except a client's cancel is an error
		return job.CaseResult{}, errCanceled
	}
	t.account(candidate, solutionSide)
	t.account(interactor, checkSide)
	g.paused += t.made // already included in the waits
	g.skip(time.Since(began) - time.Duration(candidate.Usage.WallMS*float64(time.Millisecond)) - t.made)
	t.pay()
	c := t.judge(candidate, interactor)
	g.explain(s, candidate, &c)
	return c, nil
}

// both runs the two and returns their reports.
func (t *interaction) both(ctx context.Context, a runtime.Attempt, d *caseData, limits job.CaseLimits) (candidate, interactor *runtime.Report, err error) {
	if t.asks, err = newWire(&t.toll); err != nil {
		return nil, nil, err
	}
	defer t.asks.close()
	if t.answers, err = newWire(&t.toll); err != nil {
		return nil, nil, err
	}
	defer t.answers.close()
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	b := t.interactorAttempt(d, limits)
	started := make(chan struct{})
	b.Begun = func() { close(started) }
	a.Stdin, a.Stdout = t.asks.hears, t.answers.says
	b.Stdin, b.Stdout = t.answers.hears, t.asks.says

	one, err := t.Acquire(ctx, script, "")
	if err != nil {
		return nil, nil, err
	}
	defer one.Close()
	two, err := t.Acquire(ctx, script, "")
	if err != nil {
		return nil, nil, err
	}
	defer two.Close()
	first := runConcurrently(within, two, b, func() {})
	var second <-chan end
	select {
	case <-started: // the program's time starts no earlier
		resume := t.stand() // stops the interactor's clock, too
		a.Begun = func() { t.made = resume() }
		second = runConcurrently(within, one, a, a.Begun)
	case e := <-first:
		t.settled = true
		return &runtime.Report{}, e.rep, e.err
	}
	t.asks.relay(math.MaxInt64)
	return t.await(stop, second, first, t.answers.relay(mostChecked))
}

// runConcurrently runs an attempt concurrently and calls over at its end.
func runConcurrently(ctx context.Context, s runtime.Slot, a runtime.Attempt, over func()) <-chan end {
	done := make(chan end, 1)
	go func() {
		rep, err := s.Run(ctx, a)
		over()
		done <- end{rep, err}
	}()
	return done
}

// await waits for both, and stops one if the other's end decides.
func (t *interaction) await(stop context.CancelCauseFunc, candidate, interactor <-chan end, flood <-chan struct{}) (a, b *runtime.Report, err error) {
	for running := 2; running > 0; {
		var e end
		select {
		case <-flood:
			t.flooded, flood = true, nil
			stop(runtime.ErrCanceled)
			continue
		case e = <-candidate:
			a = e.rep
		case e = <-interactor:
			b = e.rep
		}
		running--
		if e.err != nil {
			err = errors.Join(err, e.err)
		}
		if err != nil || t.decided(a, b) {
			stop(runtime.ErrCanceled)
			continue
		}
		if a != nil {
			t.answers.end()
		} else {
			t.asks.end()
		}
	}
	return a, b, err
}

// decided reports whether the ends so far decide the verdict.
func (t *interaction) decided(candidate, interactor *runtime.Report) bool {
	if candidate != nil {
		return candidate.Outcome != job.Succeeded
	}
	o := t.k.read(interactor, t.said)
	t.settled = o.failed != "" || !o.accepted && o.share == nil
	return t.settled
}

// judge returns the verdict. A bad end of the program is its own fault: the interactor was still
// running, or had accepted it.
func (t *interaction) judge(candidate, interactor *runtime.Report) job.CaseResult {
	c := caseOf(candidate)
	switch {
	case t.flooded:
		c.Outcome, c.Message = job.OutputLimit, fmt.Sprintf("it wrote more than %s to the interactor", job.Size(mostChecked))
	case t.settled, candidate.Outcome == job.Succeeded:
		t.decide(&c, t.k.read(interactor, t.said))
	}
	return c
}

// interactorAttempt returns the interactor's attempt. Its time is the program's plus its own: if
// both are silent, the program is at fault.
func (t *interaction) interactorAttempt(d *caseData, limits job.CaseLimits) runtime.Attempt {
	a := t.checkerAttempt(t.k, d, nil, t.said)
	a.Waits = t.waits // while one has no core, the other's clock stands
	p := &a.Plan.Policy
	p.Wall += limits.Wall
	if !p.RestrictHelpers {
		p.CPUTime += limits.Wall
	}
	p.Stderr.OnExceed = policy.Truncate
	if t.k.Protocol == job.Testlib {
		a.Program.Command.Argv = slices.Concat(t.k.program.Argv(p.Memory), []string{inputPath, "/workspace/output", answerPath}, t.k.Flags)
	}
	return a
}
