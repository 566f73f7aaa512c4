package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// ahead runs stdio cases side by side: the next one, and further ones ahead of it where the host has room. Each is a
// grading of its own, and they are added to the whole one in their order, as if they had run one after the other: the
// time and CPU time of the job that a case has are what those before it have left, not what they will have left by then, so
// a case that was given more than that and took it has timed out, too, and has used what it had used by then, as far as that
// can be told: it is taken to have used its time evenly. So a verdict does not depend on what room there was.
type ahead struct {
	*grading
	ctx     context.Context // of all of them
	cancel  context.CancelCauseFunc
	runs    []*aheadRun    // by case; nil: not begun
	next    int            // the case that is begun next
	running int            // of runs
	alone   bool           // one of them runs in the room that the job has anyway
	ended   chan *aheadRun // of runs
	settled time.Time      // until when the time that passed is no part of the job's: that of cases is
}

// aheadRun is a case that was begun.
type aheadRun struct {
	*grading
	limits job.CaseLimits // with which it runs
	budget time.Duration  // likewise: of CPU time
	room   func()         // leaves the room that it has; nil: the job's own
	done   bool
	result job.CaseResult
	err    error

	// What it took: of the time that counts, beside that for want of cores, and of CPU time.
	own, waited, spent time.Duration
}

// errNotNeeded ends cases that nobody asks for any more.
var errNotNeeded = errors.New("the case is not needed any more")

func (g *grading) lookAhead(ctx context.Context) *ahead {
	g.proceed() // from here on settle stops the clock
	a := &ahead{grading: g, runs: make([]*aheadRun, len(g.Tests.Stdio)), ended: make(chan *aheadRun, len(g.Tests.Stdio)), settled: time.Now()}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	return a
}

// stop ends what still runs, and waits for that.
func (a *ahead) stop() {
	a.settle()
	a.cancel(errNotNeeded)
	for a.running > 0 {
		a.took(<-a.ended)
	}
	a.settle()
}

// result is that of a case, once it is there. Cases are asked for in their order.
func (a *ahead) result(i int) (job.CaseResult, error) {
	for {
		a.fill(i)
		if r := a.runs[i]; r.done {
			a.settle()
			return a.conclude(i, r)
		}
		a.took(<-a.ended)
	}
}

// took notes that a run has ended.
func (a *ahead) took(r *aheadRun) {
	r.done = true
	a.running--
	if r.room == nil {
		a.alone = false
	}
}

// fill begins case i, if that has not begun, and those after it for which there is room.
func (a *ahead) fill(i int) {
	a.settle()
	if a.next <= i {
		a.begin(nil)
	}
	for a.next < len(a.runs) && a.left() > 0 && a.cpu.Left() > 0 {
		room, ok := (func())(nil), !a.alone
		if !ok && a.Beside != nil {
			room, ok = a.Beside()
		}
		if !ok {
			return
		}
		a.begin(room)
	}
}

// begin runs the next case.
func (a *ahead) begin(room func()) {
	s := &a.Tests.Stdio[a.next]
	p := a.Attempt.Plan.Policy
	budget := runtime.NewCPUBudget(a.cpu.Left())
	r := &aheadRun{
		grading: &grading{Config: a.Config, clock: newClock(&p, budget), together: gradings.Add(1), cpu: budget, written: newWritten(&p)},
		limits:  a.limits(s, a.next == len(a.runs)-1), budget: budget.Left(), room: room,
	}
	r.used = func() time.Duration { return 0 } // the other cases' is not its own
	a.Attempt.Collect = nil                    // the first one's artifacts are kept
	a.runs[a.next] = r
	a.next++
	a.running++
	a.alone = a.alone || room == nil
	go func() {
		defer func() { a.ended <- r }()
		if r.room != nil {
			defer r.room()
		}
		defer func() { // one bad job must not take the others on this worker with it
			if p := recover(); p != nil {
				r.err = fmt.Errorf("panic: %v", p)
			}
		}()
		r.result, r.err = r.runStdioCase(a.ctx, s, r.limits)
		r.spent = r.budget - r.cpu.Left()
		r.own, r.waited = r.took(&r.result, r.spent)
	}()
}

// took returns the own time of a case, and how long it waited besides. Both are of its program alone, without the worker's work
// for it. The own time is never less than its CPU time takes on its cores. It is never more than its limit unless the case
// timed out: what passed beyond that, passed between the end of the program and the news of it.
func (r *aheadRun) took(c *job.CaseResult, spent time.Duration) (own, waited time.Duration) {
	wall := time.Duration(c.WallMS * float64(time.Millisecond))
	cores := time.Duration(max(math.Ceil(r.Attempt.Plan.Policy.CPU), 1))
	own = wall - (r.waits.Total() - r.paused)
	if c.Outcome != job.TimedOut {
		own = min(own, r.limits.Wall.D())
	}
	own = min(max(own, spent/cores), wall)
	return own, wall - own
}

// settle leaves the time since it was called last out of the job's.
func (a *ahead) settle() {
	now := time.Now()
	a.skip(now.Sub(a.settled))
	a.settled = now
}

// conclude adds a run to the grading, and returns its result under the limits that it has after all.
func (a *ahead) conclude(i int, r *aheadRun) (job.CaseResult, error) {
	if r.err != nil {
		return job.CaseResult{}, r.err
	}
	limits, left := a.limits(&a.Tests.Stdio[i], i == len(a.runs)-1), a.cpu.Left()
	c, share := r.result, 1.0 // of what it took, within its limits
	if limits.Wall < r.limits.Wall && r.own > limits.Wall.D() {
		c.Passed, c.Outcome, c.Message = false, job.TimedOut, tooSlow
		share = float64(limits.Wall) / float64(r.own)
	}
	if left < r.budget && r.spent > left && float64(left)/float64(r.spent) < share {
		c.Passed, c.Outcome = false, job.TimedOut
		c.Message = fmt.Sprintf("the CPU time of the whole job, %s, was used up", a.Attempt.Plan.Policy.CPUTime)
		share = float64(left) / float64(r.spent)
	}
	c.Limits = &limits
	a.cpu.Spend(part(r.spent, share))
	a.charge(part(r.own, share)+r.waited, r.waited)
	a.merge(r.grading)
	r.grading = nil // its output is with the whole one's
	return c, nil
}

// part is a share of d, which is all of it or what would have been taken by the time that a limit was reached.
func part(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

// merge adds to a grading what another one of the same job has come to know, besides its cases and its time.
func (g *grading) merge(o *grading) {
	o.report.Stdout, o.report.Stderr = o.written.stdout.output(), o.written.stderr.output()
	g.account(&o.report, solutionSide)
	g.raised = cmp.Or(g.raised, o.raised)
	g.failed = cmp.Or(g.failed, o.failed)
	g.brittle += o.brittle
}
