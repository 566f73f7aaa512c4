package grade

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/internal/worker/grade/output"
	"github.com/assay-run/assay/internal/worker/grade/value"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// scriptPath is the path of a solution that runs as a script.
const scriptPath = "/workspace/solution.py"

// runStdio runs the solution once for each input, each time in its own sandbox, and judges its
// output. Cases run concurrently if there is room: see ahead.
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
		name := cmp.Or(s.Name, "stdio "+strconv.Itoa(i+1))
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

// runStdioCase runs the solution with one input and judges its output.
func (g *grading) runStdioCase(ctx context.Context, s *job.Stdio, limits job.CaseLimits) (job.CaseResult, error) {
	data, err := g.data(ctx, s)
	if err != nil {
		return job.CaseResult{}, err
	}
	defer data.close()
	if g.Tests.Interactor != nil {
		return g.interact(ctx, s, data, limits)
	}
	out := &output.Spool{Limit: g.mostOutput(data)}
	defer out.Close()
	rep, err := g.runScript(ctx, s, data, out, limits)
	if err != nil {
		return job.CaseResult{}, err
	}
	c := caseOf(rep)
	if c.Expected, err = data.answer.head(ctx); err != nil {
		return c, err
	}
	switch {
	case c.Outcome != job.Succeeded:
	case out.Over():
		c.Outcome, c.Message = job.Failed, fmt.Sprintf("it wrote %d bytes, expected %d", out.Total, data.answer.Bytes)
		if g.Tests.Checker == nil {
			var first string
			g.measured(func() { first, err = describe(ctx, s, data, out) })
			if first != "" {
				c.Message += "; " + first
			}
		}
	case g.Tests.Checker != nil:
		err = g.check(ctx, data, out, &c)
	default:
		g.measured(func() { err = compare(ctx, s, data, out, &c) })
	}
	g.explain(s, rep, &c)
	return c, err
}

// explain adds the program's own report of its failure.
func (g *grading) explain(s *job.Stdio, rep *runtime.Report, c *job.CaseResult) {
	if c.Passed {
		return
	}
	c.Stderr = tail(rep.Stderr.Text)
	if len(s.Argv) == 0 && g.Solution == nil && rep.Outcome == job.Failed && *rep.ExitCode != 0 {
		g.note(g.printed(rep.Stderr.Text))
	}
}

// mostChecked is the minimum length limit of an output for a checker, in bytes.
const mostChecked = 16 << 20

// mostOutput returns how many bytes of an output to store for a comparison. A longer output cannot
// be right.
func (g *grading) mostOutput(d *caseData) int64 {
	most := max(int64(g.Attempt.Plan.Policy.Stdout.Limit), 2*d.answer.Bytes+4096)
	if g.Tests.Checker != nil {
		most = max(most, mostChecked)
	}
	return most
}

// limits returns the limits of one run: its own within the job's.
func (g *grading) limits(s *job.Stdio, last bool) job.CaseLimits {
	more, most := g.Tests.Multiplier(), g.Attempt.Plan.Policy.Memory
	l := job.CaseLimits{Wall: job.Duration(g.share(job.Times(g.Tests.WallOf(s.Wall), more.Wall), last).Round(time.Millisecond)), Memory: most}
	if s.Memory > 0 {
		l.Memory = min(l.Memory, job.Times(s.Memory, more.Memory))
	}
	return l
}

func (g *grading) runScript(ctx context.Context, s *job.Stdio, data *caseData, out *output.Spool, limits job.CaseLimits) (rep *runtime.Report, err error) {
	began := time.Now()
	a, started := g.scriptAttempt(s, limits)
	kind, code := script, ""
	if a.Script != nil {
		kind, code = forked, a.Program.Python.Code
	}
	slot, err := g.Acquire(ctx, kind, code)
	if err != nil {
		return nil, err
	}
	defer slot.Close()
	a.Output = out
	end, err := giveInput(ctx, &a, data.input)
	if err != nil {
		return nil, err
	}
	if rep, err = slot.Run(ctx, a); err == nil {
		err = errors.Join(end(), out.Err, started(rep))
	} else {
		_ = end()
	}
	if err != nil {
		return nil, err
	}
	g.skip(time.Since(began) - time.Duration(rep.Usage.WallMS*float64(time.Millisecond)))
	g.account(rep, solutionSide)
	return rep, requireOutcome(rep)
}

// forks reports whether a case can run in a fork of a waiting interpreter instead of a new one.
// Import rules need a wrapper program, and streamed input needs a command.
func (g *grading) forks(s *job.Stdio) bool {
	return g.Solution == nil && g.Tests.Interactor == nil && len(s.Argv) == 0 && s.StdinBlob == "" && !g.Attempt.Plan.Policy.Imports.Any()
}

// scriptAttempt returns the attempt of one run of the program without its input. It also returns a
// function that checks in the report whether the program was started.
func (g *grading) scriptAttempt(s *job.Stdio, limits job.CaseLimits) (runtime.Attempt, func(*runtime.Report) error) {
	a, plan := g.attempt(solutionSide), *g.Attempt.Plan
	plan.Policy.Wall, plan.Policy.Memory = limits.Wall, limits.Memory
	a.Plan = &plan
	command := job.Command{Argv: s.Argv}
	started := func(*runtime.Report) error { return nil }
	switch {
	case len(s.Argv) > 0:
	case g.Solution != nil:
		command.Argv, command.Dir, started = g.Solution.Argv(limits.Memory), g.Solution.Dir, g.Solution.missing
	default:
		a.Files = withFile(a.Files, runtime.File{Path: scriptPath, Data: []byte(g.source())})
		if g.forks(s) {
			a.Program, a.Script = job.Program{Python: &job.Python{Code: g.source()}}, &runtime.Script{Path: scriptPath}
			return a, started
		}
		command.Argv, started = g.interpreter(), unstarted
	}
	a.Program = job.Program{Command: &command}
	return a, started
}

// giveInput connects b to the standard input of an attempt. The caller calls the returned function
// after the run.
func giveInput(ctx context.Context, a *runtime.Attempt, b *Blob) (func() error, error) {
	switch {
	case b.Data == nil:
	case a.Script != nil:
		a.Script.Stdin = b.Data
		return func() error { return nil }, nil
	default:
		a.Program.Command.Stdin = string(b.Data)
		return func() error { return nil }, nil
	}
	r, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	return feed(a, r)
}

// missing returns an error if the solution did not start because its image lacks the language.
func (s *Solution) missing(rep *runtime.Report) error {
	if err := s.Missing(rep); err != nil {
		return &unready{err.Error()}
	}
	return nil
}

// interpreter returns the command for a solution as a script, with the policy's rules for imports.
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

// source returns the solution as a script.
func (g *grading) source() string {
	if g.Tests.Setup == "" {
		return g.Tests.Code
	}
	return g.Tests.Setup + "\n" + g.Tests.Code
}

// withFile adds a file, sorted by path. It replaces a file of the job with the same path.
func withFile(files []runtime.File, f runtime.File) []runtime.File {
	files = slices.DeleteFunc(slices.Clone(files), func(g runtime.File) bool { return g.Path == f.Path })
	i, _ := slices.BinarySearchFunc(files, f.Path, func(g runtime.File, path string) int { return strings.Compare(g.Path, path) })
	return slices.Insert(files, i, f)
}

// caseOf returns the case of a program with this report. Its output is not judged yet.
func caseOf(rep *runtime.Report) job.CaseResult {
	c := job.CaseResult{Outcome: rep.Outcome, WallMS: rep.Usage.WallMS, Got: job.Clip(rep.Stdout.Text, value.MaxRepr)}
	switch {
	case rep.Outcome == job.Failed && rep.Stderr.Text != "":
		c.Message = fmt.Sprintf("exit code %d: %s", *rep.ExitCode, crashLine(rep.Stderr.Text))
	case rep.Outcome == job.Failed:
		c.Message = fmt.Sprintf("exit code %d", *rep.ExitCode)
	case rep.Outcome == job.TimedOut:
		c.Message = tooSlow
	case rep.Outcome != job.Succeeded:
		c.Message = short(rep.Message, string(rep.Outcome))
	}
	return c
}

// compare judges an output by comparison with the expected one.
func compare(ctx context.Context, s *job.Stdio, data *caseData, out *output.Spool, c *job.CaseResult) error {
	want, err := data.answer.open(ctx)
	if err != nil {
		return err
	}
	defer want.Close()
	if c.Passed, err = output.Same(out.Open(), want, s); err != nil || c.Passed {
		return err
	}
	c.Outcome = job.Failed
	c.Message, err = describe(ctx, s, data, out)
	return err
}

// describe describes the first difference between an output and the expected one. It appends "…" to
// an output that was not stored completely.
func describe(ctx context.Context, s *job.Stdio, data *caseData, out *output.Spool) (string, error) {
	rest := ""
	if out.Over() {
		rest = "…"
	}
	return output.Describe(
		func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(out.Open(), strings.NewReader(rest))), nil
		},
		func() (io.ReadCloser, error) { return data.answer.open(ctx) }, s)
}

// maxTail is the most bytes of a case's stderr in its result.
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

// crashes matches the lines with which languages report a crash, most specific first. Stacks and
// advice follow these lines.
var crashes = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^Exception in thread "[^"\n]*" .+$`),                                     // Java, Kotlin, Scala
	regexp.MustCompile(`(?m)^thread '[^'\n]*'(?: \(\d+\))? panicked at (?:[^\n]*:\n[^\n]+|.+)$`),     // Rust
	regexp.MustCompile(`(?m)^(?:panic|fatal error): .+$`),                                            // Go
	regexp.MustCompile(`(?m)^terminate called .+(?:\n +what\(\):.*)?$`),                              // C++
	regexp.MustCompile(`(?m)^\S+:\d+:in .+ \(\w+(?:::\w+)*\)$`),                                      // Ruby
	regexp.MustCompile(`(?m)^(?:PHP )?Fatal error: .+$`),                                             // PHP
	regexp.MustCompile(`(?m)^lua[\w.]*: .+$`),                                                        // Lua
	regexp.MustCompile(`(?m)^Unhandled [Ee]xception[.:][ \n]*.*$`),                                   // C#
	regexp.MustCompile(`(?m)^(?:Uncaught )?(?:[A-Z]\w*)?(?:Error|Exception)(?: \[\w+\])?(?:: .*)?$`), // JavaScript, Dart
}

// crashLine returns the line of stderr that explains why a program ended: the exception of a Python
// traceback, another known report of a crash, or the last line.
func crashLine(stderr string) string {
	if begins := title.FindAllStringIndex(stderr, -1); begins != nil {
		for line := range strings.Lines(stderr[begins[len(begins)-1][1]:]) {
			if line[0] != ' ' && line[0] != '\n' {
				return short(line, "")
			}
		}
	}
	for _, crash := range crashes {
		if found := crash.FindString(stderr); found != "" {
			return short(found, "")
		}
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(stderr), "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) == 0 {
		return ""
	}
	return short(lines[len(lines)-1], "")
}
