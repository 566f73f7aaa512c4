package grade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Config is the input of a grading.
type Config struct {
	Tests   *job.Tests
	Attempt runtime.Attempt // of the job; its program is not run
	// Acquire returns a slot of a kind (see runtime.Key) for the image and isolation of the job. code
	// is the Python code that will run in it, if known. It is called for each sandbox, also
	// concurrently.
	Acquire func(ctx context.Context, kind, code string) (runtime.Slot, error)
	// Blob returns a blob of the job's tenant. Its errors abort the grading. Nil: there are no blobs.
	Blob func(ctx context.Context, ref string) (*Blob, error)
	// Checker is the compiled checker or interactor of the tests, if it is code.
	Checker *Built
	// Beside reserves room on the host for one more sandbox of the solution, until room is called. It
	// returns false if there is none. Nil: never.
	Beside func() (room func(), ok bool)
	// Busy reports whether the host has too few cores for its load. Nil: never.
	Busy func() bool
	// Solution is how to run the solution for outputs. Nil: as a Python script.
	Solution *Solution
}

// Solution is a solution in a language of the catalogue. The attempt has its files.
type Solution struct {
	Argv func(memory job.Size) []string // for a sandbox with this memory
	Dir  string
	// Missing returns an error if the program did not start because the image lacks the language.
	Missing func(rep *runtime.Report) error
}

// The kinds of slots for a grading.
const (
	sides  = "tests"   // solution and check, which communicate
	script = "command" // the solution as a separate program
	forked = "python"  // the solution forked from a waiting interpreter
)

// First returns the most likely arguments of the first Acquire for a grading of t under p. s is as
// in Config.
func First(t *job.Tests, s *Solution, p *policy.Policy) (kind, code string) {
	switch {
	case len(t.Cases) > 0:
		return sides, solutionSide.code(t)
	case t.Check != "" && t.Process == job.Shared:
		return sides, sharedSide.code(t)
	case t.Check != "":
		return sides, checkSide.code(t)
	}
	g := &grading{Config: Config{Tests: t, Solution: s, Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: *p}}}}
	if len(t.Stdio) > 0 && g.forks(&t.Stdio[0]) {
		return forked, g.source()
	}
	return script, ""
}

// grading is the grading of one solution.
type grading struct {
	Config
	clock
	bill
	report   runtime.Report // so far
	cases    []job.CaseResult
	weights  []float64
	cpuGroup uint64             // identifies its sandboxes, which take turns
	cpu      *runtime.CPUBudget // of all sandboxes
	details  int                // bytes of the texts of cases
	written  written            // by the solution, in all runs
	box      *sandbox           // of the solution; nil: none
	unloaded *job.CaseResult    // result of every case if the solution cannot be loaded
	told     bool               // a sandbox has received the solution, so later failures may be its fault
	raised   *job.ExceptionInfo // the solution's first exception that failed a case
	failed   string             // failure of a checker or interactor, which ends the grading
	brittle  int                // outputs that crashed a working checker
}

// gradings counts gradings.
var gradings atomic.Uint64

// Run grades a solution. The report's outcome is job.Succeeded if every case passed. Otherwise it
// is job.Failed, job.CheckError if the tests themselves failed, or job.OutcomeCanceled. An error is
// our failure; no action of a solution causes one.
//
// A time-out with hardly any CPU time on a busy host is not trusted: the solution is graded again.
func Run(ctx context.Context, c Config) (*runtime.Report, error) {
	patience := retryTime
	for try := 1; ; try++ {
		rep, own, err := gradeOnce(ctx, c)
		patience -= max(own, c.Attempt.Plan.Policy.Wall.D()/4)
		if err != nil || try >= mostTries || try >= fewTries && patience <= 0 || !doubtful(&c, rep, own) {
			return rep, err
		}
		slog.WarnContext(ctx, "time-out in doubt; grading the solution again", "job", c.Attempt.Job, "cpu_ms", rep.Usage.CPUMS, "own", own)
	}
}

// Limits of repeated gradings, because a solution that sleeps always times out: fewTries, and more
// while all tries together took less than retryTime. Busy hosts affect short limits most.
const (
	fewTries  = 3
	mostTries = 12
	retryTime = 3 * time.Second
)

// doubtful reports whether a solution timed out on a busy host although it used little CPU time:
// less than half of the limit, or of own, the time that counted. A solution with artifacts or
// network access is not run again.
func doubtful(c *Config, rep *runtime.Report, own time.Duration) bool {
	p := &c.Attempt.Plan.Policy
	if rep.Tests == nil || c.Busy == nil || c.Attempt.Collect != nil || p.Network.Mode != policy.NetworkNone {
		return false
	}
	limit, late := p.Wall.D(), false
	for i := range rep.Tests.Cases {
		r := &rep.Tests.Cases[i]
		if r.Outcome != job.TimedOut {
			continue
		}
		late = true
		if r.Limits != nil && r.Limits.Wall > 0 {
			limit = min(limit, r.Limits.Wall.D())
		}
	}
	// The rest of a job's wall may be a short limit, which the earlier cases' CPU time exceeds.
	return late && rep.Usage.CPUMS < job.Milliseconds(max(limit, own))/2 && c.Busy()
}

// gradeOnce grades a solution once. own is the time that counted against the job's wall.
func gradeOnce(ctx context.Context, c Config) (rep *runtime.Report, own time.Duration, err error) {
	p := &c.Attempt.Plan.Policy
	if t := *c.Tests; t.Function == "" {
		t.Function = t.Candidate()
		c.Tests = &t
	}
	budget := runtime.NewCPUBudget(p.CPUTime.D())
	g := &grading{Config: c, clock: newClock(p, budget), cpuGroup: gradings.Add(1), cpu: budget, written: newWritten(p)}
	g.halt()
	err = g.all(ctx)
	if g.box != nil {
		if e := g.leave(); err == nil {
			err = e
		}
	}
	g.report.Stdout, g.report.Stderr = g.written.stdout.output(), g.written.stderr.output()
	if errors.Is(err, errCanceled) {
		g.report.Outcome, g.report.State = job.OutcomeCanceled, job.Canceled
		return &g.report, g.now(), nil
	}
	if missing := new(unready); errors.As(err, &missing) {
		g.report.Outcome, g.report.State, g.report.Message = job.SetupError, job.Finished, missing.Error()
		return &g.report, g.now(), nil
	}
	if err != nil {
		return nil, g.now(), err
	}
	g.conclude()
	return &g.report, g.now(), nil
}

// all grades cases, the check and stdio cases.
func (g *grading) all(ctx context.Context) error {
	if len(g.Tests.Cases) > 0 {
		if err := g.runCases(ctx); err != nil {
			return err
		}
	}
	if g.Tests.Check != "" {
		if err := g.runCheck(ctx); err != nil {
			return err
		}
	}
	return g.runStdio(ctx)
}

// left returns the rest of the job's wall in the grading's time.
func (g *grading) left() time.Duration {
	wall := g.Attempt.Plan.Policy.Wall.D()
	if left := wall - g.recent(); left > 0 {
		return left
	}
	return wall - g.look()
}

// The minimum time of a case without its own limit, while it is available: a part of the job's
// wall, at most leastShare.
const (
	leastPart  = 4
	leastShare = time.Second
)

// share returns the limit of the next case or test: its own, or half of the rest of the job's wall,
// so that a hanging case leaves time for others. The minimum is a quarter of the wall, at most a
// second, while it is available.
func (g *grading) share(asked job.Duration, last bool) time.Duration {
	left := g.left()
	switch {
	case asked > 0:
		return min(left, asked.D())
	case last:
		return left
	}
	return max(left/2, min(left, g.Attempt.Plan.Policy.Wall.D()/leastPart, leastShare))
}

// enough reports whether to stop here.
func (g *grading) enough() bool {
	if !g.Tests.StopOnFailure {
		return false
	}
	for _, c := range g.cases {
		if !c.Passed && !c.Skipped {
			return true
		}
	}
	return false
}

func (g *grading) add(c job.CaseResult, weight *float64) {
	w := 1.0
	if weight != nil {
		w = *weight
	}
	g.trim(&c)
	g.cases, g.weights = append(g.cases, c), append(g.weights, w)
}

// skipped returns the result of a case if it must be skipped.
func (g *grading) skipped(name string) (job.CaseResult, bool) {
	switch {
	case g.enough():
		return job.CaseResult{Name: name, Outcome: job.OutcomeCanceled, Message: "not run: an earlier case failed"}, true
	case g.failed != "":
		return job.CaseResult{Name: name, Outcome: job.OutcomeCanceled, Message: "not run: " + g.failed}, true
	case g.brittle >= mostBrittle:
		return job.CaseResult{Name: name, Outcome: job.OutcomeCanceled, Message: fmt.Sprintf("not run: %d outputs before it have broken the checker", g.brittle)}, true
	case g.left() <= 0:
		return job.CaseResult{Name: name, Outcome: job.TimedOut,
			Message: fmt.Sprintf("not run: the time of the whole job, %s, was over", g.Attempt.Plan.Policy.Wall)}, true
	case g.cpu.Left() <= 0:
		return job.CaseResult{Name: name, Outcome: job.TimedOut,
			Message: fmt.Sprintf("not run: the CPU time of the whole job, %s, was used up", g.Attempt.Plan.Policy.CPUTime)}, true
	}
	return job.CaseResult{}, false
}

// account adds a sandbox's usage and the solution's output.
func (g *grading) account(r *runtime.Report, s side) {
	t := &g.report
	u := &t.Usage
	u.CPUMS += r.Usage.CPUMS
	u.NetworkBytes += r.Usage.NetworkBytes
	u.MemoryPeakBytes = max(u.MemoryPeakBytes, r.Usage.MemoryPeakBytes)
	u.ProcessesPeak = max(u.ProcessesPeak, r.Usage.ProcessesPeak)
	t.ImageDigest, t.Enforcement = r.ImageDigest, g.Attempt.Plan.Enforcement
	if t.StartedAt.IsZero() {
		t.StartedAt = r.StartedAt
	}
	t.Timings.CollectMS += r.Timings.CollectMS
	if s == checkSide {
		return
	}
	if t.Network == nil {
		t.Network = r.Network
	}
	g.written.add(r)
}

// maxDetails limits the texts of all cases of a result, in bytes.
const maxDetails = 1 << 20

// trim drops the texts of a case late in a long list.
func (g *grading) trim(c *job.CaseResult) {
	if g.details += len(c.Got) + len(c.Expected) + len(c.Message) + len(c.Stderr); g.details > maxDetails {
		c.Got, c.Expected, c.Message, c.Stderr = "", "", "", ""
	}
}

// score returns the passed share of the weights, or nil if a case has no verdict.
func score(t *job.TestsResult, got, all float64) *float64 {
	share := 0.0
	switch {
	case t.Errors > 0:
		return nil
	case all > 0:
		share = got / all
	case t.Total > 0: // all weights are zero: count cases equally
		share = float64(t.Passed) / float64(t.Total)
	}
	return &share
}

// conclude completes the report.
func (g *grading) conclude() {
	t := &job.TestsResult{Cases: g.cases, Forgeable: g.Tests.Check != "" && g.Tests.Process == job.Shared}
	var got, all float64
	for i, c := range g.cases {
		if c.Skipped {
			t.Skipped++
			continue
		}
		all += g.weights[i]
		switch {
		case c.Passed:
			t.Passed++
			got += g.weights[i]
		case c.Score != nil:
			got += g.weights[i] * *c.Score
		case c.Outcome == job.CheckError:
			t.Errors++
		}
	}
	t.Total = len(g.cases) - t.Skipped
	t.Failed = t.Total - t.Passed - t.Errors
	t.Score = score(t, got, all)
	r := &g.report
	r.Tests, r.Feedback, r.Exception = t, feedback(g.cases), g.raised
	switch {
	case t.Errors > 0:
		r.Outcome = job.CheckError
		r.Message = fmt.Sprintf("%d of %d cases have no verdict: the tests themselves failed", t.Errors, t.Total)
	case t.Failed > 0:
		r.Outcome = job.Failed
		r.Message = fmt.Sprintf("%d of %d cases passed", t.Passed, t.Total)
	default:
		r.Outcome = job.Succeeded
	}
	r.State = r.Outcome.State()
	g.proceed()
	r.Usage.WallMS = job.Milliseconds(time.Since(g.began) - g.paused)
	r.Usage.WaitedMS = job.Milliseconds(g.waits.Total() - g.paused)
	r.Timings.RunMS = r.Usage.WallMS
}
