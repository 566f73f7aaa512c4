package grade

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// scriptPath is where a solution lies that is run as a script.
const scriptPath = "/workspace/solution.py"

// runStdio runs the solution once for each input, each time in a sandbox of its
// own, and compares its output. Cases run side by side where there is room: see ahead.
func (g *grading) runStdio(ctx context.Context) error {
	if len(g.Tests.Stdio) == 0 {
		return nil
	}
	if g.box != nil {
		if err := g.leave(); err != nil {
			return err
		}
	}
	cases := g.lookAhead(ctx)
	defer cases.stop()
	for i := range g.Tests.Stdio {
		s := &g.Tests.Stdio[i]
		name := s.Name
		if name == "" {
			name = "stdio " + strconv.Itoa(i+1)
		}
		c, skip := g.skipped(name)
		if !skip {
			var err error
			if c, err = cases.result(i); err != nil {
				return err
			}
			c.Name = name
		}
		g.add(c, s.Weight)
	}
	return nil
}

// runStdioCase runs the solution with one input, and decides on its output.
func (g *grading) runStdioCase(ctx context.Context, s *job.Stdio, limits job.CaseLimits) (job.CaseResult, error) {
	rep, err := g.runScript(ctx, s, limits)
	if err != nil {
		return job.CaseResult{}, err
	}
	c := judgeOutput(s, rep)
	if len(s.Argv) == 0 && g.Solution == nil && c.Outcome == job.Failed && *rep.ExitCode != 0 {
		g.note(g.printed(rep.Stderr.Text))
	}
	return c, nil
}

// limits are those of one run: what the test says, within what the job has.
func (g *grading) limits(s *job.Stdio, last bool) job.CaseLimits {
	l := job.CaseLimits{Wall: job.Duration(g.share(s.Wall, last).Round(time.Millisecond)), Memory: g.Attempt.Plan.Policy.Memory}
	if s.Memory > 0 {
		l.Memory = min(l.Memory, s.Memory)
	}
	return l
}

func (g *grading) runScript(ctx context.Context, s *job.Stdio, limits job.CaseLimits) (*runtime.Report, error) {
	began := time.Now()
	slot, err := g.Acquire(ctx, script, "")
	if err != nil {
		return nil, err
	}
	defer slot.Close()
	a, plan := g.attempt(solutionSide), *g.Attempt.Plan
	plan.Policy.Wall, plan.Policy.Memory = limits.Wall, limits.Memory
	if out := &plan.Policy.Stdout; out.OnExceed != policy.Kill { // what is to be compared must be read whole; the record keeps less
		out.Limit = max(out.Limit, job.Size(2*len(s.Stdout)+4096))
	}
	a.Plan = &plan
	command := job.Command{Argv: s.Argv, Stdin: s.Stdin}
	started := func(*runtime.Report) error { return nil }
	switch {
	case len(s.Argv) > 0:
	case g.Solution != nil:
		command.Argv, command.Dir, started = g.Solution.Argv(limits.Memory), g.Solution.Dir, g.Solution.missing
	default:
		command.Argv, started = g.interpreter(), unstarted
		a.Files = withFile(a.Files, runtime.File{Path: scriptPath, Data: []byte(g.source())})
	}
	a.Program = job.Program{Command: &command}
	rep, err := slot.Run(ctx, a)
	if err == nil {
		err = started(rep)
	}
	if err != nil {
		return nil, err
	}
	g.skip(time.Since(began) - time.Duration(rep.Usage.WallMS*float64(time.Millisecond)))
	g.account(rep, solutionSide)
	if rep.Outcome == job.OutcomeCanceled {
		return nil, errCanceled
	}
	return rep, nil
}

// missing is an error if a run of the solution was not started for what its image lacks.
func (s *Solution) missing(rep *runtime.Report) error {
	if err := s.Missing(rep); err != nil {
		return &noInterpreter{err.Error()}
	}
	return nil
}

// interpreter is what runs the solution as a script, under rules for its imports if the
// policy has some.
func (g *grading) interpreter() []string {
	rules := g.Attempt.Plan.Policy.Imports
	if !rules.Any() {
		return []string{"python3", "-B", scriptPath}
	}
	exempt := 0
	if g.Tests.Setup != "" {
		exempt = 1 + strings.Count(g.Tests.Setup, "\n")
	}
	const run = "\nimport json\nrun_script(sys.argv[3], json.loads(sys.argv[1]), int(sys.argv[2]))\n"
	asked, _ := json.Marshal(rules) // lists of strings
	return []string{"python3", "-B", "-c", string(python.Imports) + run, string(asked), strconv.Itoa(exempt), scriptPath}
}

// source is the solution as a script.
func (g *grading) source() string {
	if g.Tests.Setup == "" {
		return g.Tests.Code
	}
	return g.Tests.Setup + "\n" + g.Tests.Code
}

// withFile adds a file, in the order of their paths. A file of the job with the
// same path gives way.
func withFile(files []runtime.File, f runtime.File) []runtime.File {
	files = slices.DeleteFunc(slices.Clone(files), func(g runtime.File) bool { return g.Path == f.Path })
	i, _ := slices.BinarySearchFunc(files, f.Path, func(g runtime.File, path string) int {
		switch {
		case g.Path < path:
			return -1
		case g.Path > path:
			return 1
		}
		return 0
	})
	return slices.Insert(files, i, f)
}

func judgeOutput(s *job.Stdio, rep *runtime.Report) job.CaseResult {
	c := job.CaseResult{Outcome: rep.Outcome, WallMS: rep.Usage.WallMS, Got: job.Clip(rep.Stdout.Text, maxRepr), Expected: job.Clip(s.Stdout, maxRepr)}
	switch {
	case rep.Outcome == job.Failed && rep.Stderr.Text != "":
		c.Message = fmt.Sprintf("exit code %d: %s", *rep.ExitCode, lastLine(rep.Stderr.Text))
	case rep.Outcome == job.Failed:
		c.Message = fmt.Sprintf("exit code %d", *rep.ExitCode)
	case rep.Outcome == job.TimedOut:
		c.Message = tooSlow
	case rep.Outcome != job.Succeeded:
		c.Message = short(rep.Message, string(rep.Outcome))
	case rep.Stdout.Truncated:
		c.Outcome, c.Message = job.Failed, fmt.Sprintf("it wrote %d bytes, expected %d", rep.Stdout.Bytes, len(s.Stdout))
	case !sameOutput(rep.Stdout.Text, s.Stdout, s.Compare, s.Tolerance):
		c.Outcome = job.Failed
		line, got, want := firstDifference(rep.Stdout.Text, s.Stdout)
		c.Message = fmt.Sprintf("line %d of the output is %q, expected %q", line, job.Clip(got, maxRepr), job.Clip(want, maxRepr))
		if line == 0 {
			c.Message = "the output differs in blanks only"
		}
	default:
		c.Passed = true
		return c
	}
	c.Stderr = tail(rep.Stderr.Text)
	return c
}

// maxTail is what is kept of what a case wrote to stderr, in bytes.
const maxTail = 1000

// tail returns the last lines of s.
func tail(s string) string {
	s = strings.TrimRight(s, "\n")
	if len(s) <= maxTail {
		return s
	}
	s = s[len(s)-maxTail:]
	if _, rest, ok := strings.Cut(s, "\n"); ok && rest != "" {
		s = rest
	}
	return strings.ToValidUTF8(s, "")
}

// lastLine is where python says what went wrong.
func lastLine(s string) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(s), "\n"), func(l string) bool { return l == "" })
	if len(lines) == 0 {
		return ""
	}
	return short(lines[len(lines)-1], "")
}
