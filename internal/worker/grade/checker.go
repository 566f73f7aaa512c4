package grade

import (
	"context"
	"fmt"
	"io"
	"math"
	"path"
	"slices"

	"github.com/assay-run/assay/internal/worker/grade/output"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Locations of a checker's arguments. It cannot modify the case directory.
const (
	caseDir     = "/case"
	inputPath   = caseDir + "/input"
	answerPath  = caseDir + "/answer"
	outputPath  = caseDir + "/output"
	feedbackDir = "/workspace/feedback"
	messagePath = feedbackDir + "/judgemessage.txt"
)

// Built is the program of a checker, ready to run.
type Built struct {
	Solution
	Files     []runtime.File    // sorted by path
	Env       map[string]string // in addition to the image's
	Processes int               // minimum requirement
	Problem   string            // why it cannot be started, such as a compiler error; "" if it can
}

// checker is a checker or an interactor, ready to run.
type checker struct {
	*job.Checker
	name    string // "checker" or "interactor"
	program *Built
}

// ready prepares a checker or an interactor of the tests.
func (g *grading) ready(name string, c *job.Checker) (*checker, error) {
	switch {
	case c.Code == nil:
		anything := func(*runtime.Report) error { return nil } // a program missing in the image is a failure of the tests
		return &checker{c, name, &Built{Solution: Solution{Argv: func(job.Size) []string { return c.Argv }, Missing: anything}}}, nil
	case g.Checker == nil:
		return nil, fmt.Errorf("the %s is source code and was not compiled", name)
	}
	return &checker{c, name, g.Checker}, nil
}

// check lets the checker judge an output.
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

// mostBrittle is how many outputs of a solution may crash a checker. Each costs two runs of the
// checker, outside the job's time.
const mostBrittle = 3

// blame decides who is at fault when a checker gives no verdict on an output. It runs the checker
// on the reference answer. If the checker accepts this, it works for the case, and the solution's
// output has broken it. Otherwise a solution could replace a bad verdict by none. See
// docs/adr/0034.
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

// checkerAttempt returns the attempt of a checker, called by the kattis convention. It has its own
// limits and files. It gets no secrets and no files that the solution may have influenced.
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

// checkerPlan returns a checker's policy: the default one with the checker's own limits. The job's
// policy applies as well if it restricts helpers.
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

// runChecker runs a checker in its own sandbox, outside the grading's time.
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

// at returns the blob as a file with this path.
func (b *Blob) at(p string) runtime.File {
	f := b.File
	f.Path = p
	return f
}

// opened returns a function that opens the content of a spool.
func opened(s *output.Spool) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(s.Open()), nil }
}

// decide turns a checker's opinion into the verdict on a case.
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

// fault marks a case as without a verdict because its checker failed.
func (g *grading) fault(c *job.CaseResult, message string) {
	c.Passed, c.Outcome, c.Message, c.Score = false, job.CheckError, printable(message), nil
	g.failed = c.Message
}

// notes holds the files in a checker's directory for messages, by name.
type notes map[string]string

// take is a runtime.Collector.
func (n notes) take(_ context.Context, name string, _ int64, r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, 4*maxLine))
	if err != nil {
		return fmt.Errorf("read a checker's message: %w", err)
	}
	n[path.Base(name)] = string(text)
	return nil
}
