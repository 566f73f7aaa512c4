package grade

import (
	"context"
	"fmt"
	"io"
	"math"
	"path"
	"slices"

	"github.com/assay-run/assay/internal/grade/output"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Where a checker finds what it is called with. It cannot change the first.
const (
	caseDir     = "/case"
	inputPath   = caseDir + "/input"
	answerPath  = caseDir + "/answer"
	outputPath  = caseDir + "/output"
	feedbackDir = "/workspace/feedback"
	messagePath = feedbackDir + "/judgemessage.txt"
)

// Built is the program of a checker, ready to be started.
type Built struct {
	Solution
	Files     []runtime.File    // in the order of their paths
	Env       map[string]string // besides the image's
	Processes int               // that it needs at least
	Problem   string            // why it cannot be started, such as an error of its compiler; "" if it can
}

// checker is a checker or an interactor, ready to be started.
type checker struct {
	*job.Checker
	name    string // which of the two
	program *Built
}

// ready is a checker or an interactor of the tests.
func (g *grading) ready(name string, c *job.Checker) (*checker, error) {
	switch {
	case c.Code == nil:
		anything := func(*runtime.Report) error { return nil } // one that the image has not is a failure of the tests
		return &checker{c, name, &Built{Solution: Solution{Argv: func(job.Size) []string { return c.Argv }, Missing: anything}}}, nil
	case g.Checker == nil:
		return nil, fmt.Errorf("the %s is code, and nobody has made a program of it", name)
	}
	return &checker{c, name, g.Checker}, nil
}

// check has the checker decide on an output.
func (g *grading) check(ctx context.Context, d *caseData, out *output.Spool, c *job.CaseResult) error {
	defer g.pause()()
	k, err := g.ready("checker", g.Tests.Checker)
	if err != nil {
		return err
	}
	if k.program.Problem != "" {
		g.fault(c, "the checker cannot be started: "+k.program.Problem)
		return nil
	}
	o, err := g.ask(ctx, k, d, &Blob{File: runtime.File{Open: opened(out)}, Bytes: out.Size()})
	if err == nil && o.broke() {
		o, err = g.blame(ctx, k, d, o)
	}
	if err != nil {
		return err
	}
	g.decide(c, o)
	return nil
}

// mostBrittle is how many outputs of a solution may break a checker. Each takes a checker's time twice, which is not the job's.
const mostBrittle = 3

// blame says whose failure it is that a checker came to no verdict on an output. It is asked about the answer in place of the
// output: if it accepts that, it works with this case, and what the solution wrote has ended it. Otherwise a solution could
// choose to have no verdict in place of a bad one. docs/adr/0034 has more of it.
func (g *grading) blame(ctx context.Context, k *checker, d *caseData, o opinion) (opinion, error) {
	control, err := g.ask(ctx, k, d, d.answer)
	if err != nil || !control.accepts() {
		return o, err
	}
	g.brittle++
	return opinion{message: "wrong answer: " + o.failed + "; given the answer in place of this output, it accepts"}, nil
}

// ask runs the checker on an output.
func (g *grading) ask(ctx context.Context, k *checker, d *caseData, out *Blob) (opinion, error) {
	said := notes{}
	a := g.checkerAttempt(k, d, out, said)
	end, err := func() error { return nil }, error(nil)
	if k.Protocol == job.Testlib {
		a.Program.Command.Argv = slices.Concat(k.program.Argv(a.Plan.Policy.Memory), []string{inputPath, outputPath, answerPath}, k.Flags)
		a.Files = withFile(a.Files, out.at(outputPath))
	} else if end, err = giveInput(ctx, &a, out); err != nil {
		return opinion{}, err
	}
	rep, err := g.runChecker(ctx, a)
	if failed := end(); err == nil {
		err = failed
	}
	if err == nil {
		err = k.program.missing(rep)
	}
	if err != nil {
		return opinion{}, err
	}
	return k.read(rep, said), nil
}

// checkerAttempt is that of a checker: its own limits, its own files, nothing of the job's that a candidate may have had a
// hand in, and no secrets. It is called as kattis has it.
func (g *grading) checkerAttempt(k *checker, d *caseData, out *Blob, said notes) runtime.Attempt {
	a := g.Attempt
	a.Plan = g.checkerPlan(k, d, out)
	a.Collect, a.Secrets, a.Files, a.CPU, a.Waits = said.take, nil, k.program.Files, nil, nil
	a.Gathered, a.Metered, a.Begun = nil, nil, nil
	for _, f := range []runtime.File{d.input.at(inputPath), d.answer.at(answerPath), {Path: messagePath, Data: []byte{}}} {
		a.Files = withFile(a.Files, f)
	}
	a.Program = job.Program{Command: &job.Command{Argv: slices.Concat(k.program.Argv(a.Plan.Policy.Memory), []string{inputPath, answerPath, feedbackDir}, k.Flags), Dir: k.program.Dir}}
	return a
}

// checkerPlan returns a checker's policy: the default one with the checker's own limits. The
// job's policy holds as well if it restricts helpers.
func (g *grading) checkerPlan(k *checker, d *caseData, out *Blob) *policy.Plan {
	jobs, p := &g.Attempt.Plan.Policy, policy.Default()
	p.Isolation, p.Enforce, p.CPU, p.Packages = jobs.Isolation, jobs.Enforce, jobs.CPU, jobs.Packages
	p.Wall, p.Memory = k.WallFor(jobs.Wall), k.MemoryFor(jobs.Memory)
	p.CPUTime = job.Duration(float64(p.Wall) * max(1, math.Ceil(p.CPU)))
	input := job.Size(d.input.Bytes + d.answer.Bytes)
	if out != nil {
		input += job.Size(out.Bytes)
	}
	p.Disk = max(jobs.Disk, p.Disk) + input // so that no output can fill it
	p.Processes = max(p.Processes, k.program.Processes)
	p.Read = []string{caseDir}
	p.Env.Set = k.program.Env
	p.Artifacts.Paths = []string{feedbackDir + "/*"}
	return &policy.Plan{Policy: jobs.Helper(p, input), Enforcement: g.Attempt.Plan.Enforcement}
}

// runChecker runs one in a sandbox of its own, beyond the time of the grading.
func (g *grading) runChecker(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	slot, err := g.Acquire(ctx, script, "")
	if err != nil {
		return nil, err
	}
	defer slot.Close()
	rep, err := slot.Run(ctx, a)
	if err != nil {
		return nil, err
	}
	g.account(rep, checkSide)
	if rep.Outcome == job.OutcomeCanceled {
		return nil, errCanceled
	}
	return rep, nil
}

// at is it as the file of a path.
func (b *Blob) at(p string) runtime.File {
	f := b.File
	f.Path = p
	return f
}

// opened reads what a spool has, as a file.
func opened(s *output.Spool) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(s.Open()), nil }
}

// decide makes a checker's opinion the verdict on a case.
func (g *grading) decide(c *job.CaseResult, o opinion) {
	switch {
	case o.failed != "":
		g.fault(c, o.failed)
	case o.share == nil && o.accepted || o.share != nil && *o.share >= 1:
		c.Passed, c.Outcome, c.Message = true, job.Succeeded, ""
	default:
		c.Outcome, c.Message, c.Score = job.Failed, o.message, o.share
	}
}

// fault says that a case has no verdict, by the failure of what was to reach it.
func (g *grading) fault(c *job.CaseResult, message string) {
	c.Passed, c.Outcome, c.Message, c.Score = false, job.CheckError, printable(message), nil
	g.failed = c.Message
}

// notes are what a checker left in its directory for messages, by the names of the files.
type notes map[string]string

// take is a runtime.Collector.
func (n notes) take(_ context.Context, name string, _ int64, r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, 4*maxLine))
	if err != nil {
		return fmt.Errorf("read what a checker says: %w", err)
	}
	n[path.Base(name)] = string(text)
	return nil
}
