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

// ahead runs stdio cases concurrently: the next one, and later ones if the host has room. Each case
// is a grading of its own. conclude adds them in order, as if they had run one after the other. So
// a verdict does not depend on the room.
//
// The job's limits on time and CPU time apply in this order: a case has the amounts that earlier
// cases left. A case that started early may have had a higher limit. If it used more than earlier
// cases left, it has timed out. Its usage is then estimated, as if it had used time evenly.
type ahead struct {
	*grading
	ctx     context.Context // of all cases
	cancel  context.CancelCauseFunc
	runs    []*aheadRun    // by case; nil: not started
	next    int            // the next case to start
	running int            // of runs
	alone   bool           // one of them runs in the job's own room
	ended   chan *aheadRun // of runs
	settled time.Time      // the job's time excludes the time up to here, which cases account for
}

// aheadRun is a case in progress.
type aheadRun struct {
	*grading
	limits job.CaseLimits // the effective limits
	budget time.Duration  // the effective limit of CPU time
	room   func()         // frees its room; nil: it uses the job's own
	done   bool
	result job.CaseResult
	err    error

	// Usage: own is the time that counts, waited the time without cores, spent the CPU time.
	own, waited, spent time.Duration
}

// errNotNeeded cancels cases whose result is not needed any more.
var errNotNeeded = errors.New("the case is no longer needed")

func (g *grading) lookAhead(ctx context.Context) *ahead {
	g.proceed() // from here on settle stops the clock
	a := &ahead{grading: g, runs: make([]*aheadRun, len(g.Tests.Stdio)), ended: make(chan *aheadRun, len(g.Tests.Stdio)), settled: time.Now()}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	return a
}

// stop cancels running cases and waits for them.
func (a *ahead) stop() {
	a.settle()
	a.cancel(errNotNeeded)
	for a.running > 0 {
		a.took(<-a.ended)
	}
	a.settle()
}

// result waits for the result of a case. Callers request cases in order.
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

// took records that a run has ended.
func (a *ahead) took(r *aheadRun) {
	r.done = true
	a.running--
	if r.room == nil {
		a.alone = false
	}
}

// fill starts case i if necessary, and later cases if there is room.
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

// begin starts the next case.
func (a *ahead) begin(room func()) {
	s := &a.Tests.Stdio[a.next]
	p := a.Attempt.Plan.Policy
	budget := runtime.NewCPUBudget(a.cpu.Left())
	r := &aheadRun{
		grading: &grading{Config: a.Config, clock: newClock(&p, budget), cpuGroup: gradings.Add(1), cpu: budget, written: newWritten(&p)},
		limits:  a.limits(s, a.next == len(a.runs)-1), budget: budget.Left(), room: room,
	}
	r.used = func() time.Duration { return 0 } // excludes the other cases
	a.Attempt.Collect = nil                    // only the first case's artifacts are kept
	a.runs[a.next] = r
	a.next++
	a.running++
	a.alone = a.alone || room == nil
	go func() {
		defer func() { a.ended <- r }()
		if r.room != nil {
			defer r.room()
		}
		defer func() { // one bad job must not crash the worker
			if p := recover(); p != nil {
				r.err = fmt.Errorf("panic: %v", p)
			}
		}()
		r.result, r.err = r.runStdioCase(a.ctx, s, r.limits)
		r.spent = r.budget - r.cpu.Left()
		r.own, r.waited = r.took(&r.result, r.spent)
	}()
}

// took returns the own time of a case and its wait for cores, both of the program alone, without
// the worker's work. The own time is at least its CPU time divided by its cores. It is at most the
// limit unless the case timed out: any excess passed between the program's end and its report.
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

// settle excludes the time since the last call from the job's.
func (a *ahead) settle() {
	now := time.Now()
	a.skip(now.Sub(a.settled))
	a.settled = now
}

// conclude adds a run to the grading and returns its result under its final limits.
func (a *ahead) conclude(i int, r *aheadRun) (job.CaseResult, error) {
	if r.err != nil {
		return job.CaseResult{}, r.err
	}
	limits, left := a.limits(&a.Tests.Stdio[i], i == len(a.runs)-1), a.cpu.Left()
	c, share := r.result, 1.0 // share of its usage within its limits
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
	r.grading = nil // the whole grading has its output
	return c, nil
}

// part returns a share of d: all of it, or the estimate up to a limit.
func part(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

// merge adds the findings of another grading of the same job, except its cases and time.
func (g *grading) merge(o *grading) {
	o.report.Stdout, o.report.Stderr = o.written.stdout.output(), o.written.stderr.output()
	g.account(&o.report, solutionSide)
	g.raised = cmp.Or(g.raised, o.raised)
	g.failed = cmp.Or(g.failed, o.failed)
	g.brittle += o.brittle
}
