package compile

import (
	"cmp"
	"context"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/assay-run/assay/internal/worker/grade"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Code is a program, a solution or a checker in a language of the catalogue. Its methods do nothing
// on nil, which stands for a program in no such language.
type Code struct {
	language *language.Language
	sources  map[string]string // relative path → text
	main     string            // the source that the program starts with
	class    string            // the class that it starts with; empty: derived from main
	program  job.Program       // of the spec
	how      *job.Compile
	out      *Output // nil: not compiled
}

// Of returns the part of a program that is in a language of the catalogue, or nil. The error names
// an unknown language.
func Of(p job.Program) (*Code, error) {
	in := p.InLanguage()
	if in == nil {
		return nil, nil
	}
	return newCode(in, p)
}

// OfChecker returns the checker or interactor of tests. It returns nil if there is none, or if it
// is a command of the image.
func OfChecker(t *job.Tests) (*Code, error) {
	in := t.CheckerCode()
	if in == nil {
		return nil, nil
	}
	return newCode(in, job.Program{})
}

func newCode(in *job.Code, p job.Program) (*Code, error) {
	l, err := language.Find(in.Language)
	if err != nil {
		return nil, err
	}
	c := &Code{language: l, program: p, how: in.Compile}
	sources := in.Files
	if len(sources) == 0 {
		sources = map[string]string{cmp.Or(in.Main, l.File): in.Source}
	}
	c.main, c.class, c.sources = l.Arrange(in.Main, sources)
	return c, nil
}

// Language returns the language's name in the catalogue, or "" for nil.
func (c *Code) Language() string {
	if c == nil {
		return ""
	}
	return c.language.Name
}

// ToCompile returns the program to compile, without tenant and image, or nil if the language is not
// compiled.
func (c *Code) ToCompile() *Program {
	if c == nil || c.language.Compile == nil {
		return nil
	}
	how := job.Compile{Wall: job.Duration(c.language.Compile.Limit()), Memory: c.language.Compile.Memory}
	if c.how != nil {
		how = *c.how
	}
	return &Program{Language: c.language, Sources: c.sources, Main: c.main, How: how}
}

// Keep sets the compiled files, which are held until Release.
func (c *Code) Keep(out *Output) { c.out = out }

// Release releases the compiled files. It may be called again.
func (c *Code) Release() {
	if c != nil && c.out != nil {
		c.out.Release()
		c.out = nil
	}
}

// Uncompiled returns the result of a program that does not compile, otherwise nil. No case of its
// tests has run.
func (c *Code) Uncompiled() *job.Result {
	if c.problem() == "" {
		return nil
	}
	res := &job.Result{Outcome: job.CompileError, Message: job.ClipMessage(c.out.Why), Feedback: c.out.Feedback, Compiled: &c.out.Compiled, ImageDigest: c.out.Digest}
	if t := c.program.Tests; t != nil {
		res.Tests = &job.TestsResult{Total: len(t.Stdio), Score: new(float64), Cases: []job.CaseResult{}}
	}
	return res
}

// problem returns the compiler's reason for rejecting the program, or "".
func (c *Code) problem() string {
	if c == nil || c.out == nil {
		return ""
	}
	return c.out.Why
}

// argv returns the command line of the program in a sandbox with that much memory, without the
// job's arguments.
func (c *Code) argv(memory job.Size) []string {
	in := language.Program{Main: c.main, Class: c.class, Files: slices.Sorted(maps.Keys(c.sources)), Out: language.Out, Memory: memory}
	return c.language.Expand(&c.language.Run, in)
}

// Solution returns the solution for a grading in this image.
func (c *Code) Solution(image string) *grade.Solution {
	if c == nil {
		return nil
	}
	return &grade.Solution{Argv: c.argv, Dir: language.Dir, Missing: func(rep *runtime.Report) error { return c.missing(image, rep) }}
}

// Checker returns the checker for a grading in this image. The grading reports a checker that does
// not compile.
func (c *Code) Checker(image string) *grade.Built {
	if c == nil {
		return nil
	}
	b := &grade.Built{Solution: *c.Solution(image), Env: c.language.Run.Env, Processes: c.language.Run.Processes}
	if why := c.problem(); why != "" {
		b.Problem = job.ClipMessage(why)
		return b
	}
	b.Files = c.files(nil)
	return b
}

// Prepare turns an attempt at the job into an attempt at its compiled program.
func (c *Code) Prepare(in *runtime.Attempt) {
	if c == nil {
		return
	}
	plan := *in.Plan
	env := maps.Clone(c.language.Run.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, plan.Policy.Env.Set) // the policy wins
	plan.Policy.Env.Set = env
	in.Plan, in.Files = &plan, c.files(in.Files)
	if source, ok := c.Script(&plan.Policy); ok {
		p := c.program.Code
		in.Program = job.Program{Python: &job.Python{Code: source}}
		in.Script = &runtime.Script{Path: path.Join(language.Dir, c.main), Dir: language.Dir, Args: p.Args, Stdin: []byte(p.Stdin)}
	} else if p := c.program.Code; p != nil {
		in.Program = job.Program{Command: &job.Command{Argv: slices.Concat(c.argv(plan.Policy.Memory), p.Args), Stdin: p.Stdin, Dir: language.Dir}}
	}
	if take := in.Collect; take != nil && c.out != nil { // compiled files are not artifacts
		in.Collect = func(ctx context.Context, name string, size int64, r io.Reader) error {
			if strings.HasPrefix(name, language.Out+"/") {
				return nil
			}
			return take(ctx, name, size, r)
		}
	}
}

// Script returns the source of a program that a waiting interpreter can run, so that none need be
// started for it. Programs whose policy has import rules do not qualify: these rules are for
// snippets.
func (c *Code) Script(p *policy.Policy) (source string, ok bool) {
	if c == nil || c.program.Code == nil || c.language.Name != language.Python || p.Imports.Any() {
		return "", false
	}
	return c.sources[c.main], true
}

// files adds the sources and compiled files to the job's files, sorted by path.
func (c *Code) files(files []runtime.File) []runtime.File {
	files = slices.Clone(files)
	for name, text := range c.sources {
		files = append(files, runtime.File{Path: path.Join(language.Dir, name), Data: []byte(text)})
	}
	if c.out != nil {
		files = append(files, c.out.Files...)
	}
	slices.SortFunc(files, func(a, b runtime.File) int { return strings.Compare(a.Path, b.Path) })
	return files
}

// missing returns an error if the program could not be started because the image lacks its
// language. If the compiled file itself cannot be started, the program is at fault.
func (c *Code) missing(image string, rep *runtime.Report) error {
	argv := c.argv(0)
	if !rep.Unbegun || strings.HasPrefix(argv[0], language.Out+"/") {
		return nil
	}
	return NewMissing(c.language, image, argv, rep)
}

// Complete adds the compilation to a report. It returns an error if the program did not run because
// the image lacks its language.
func (c *Code) Complete(image string, rep *runtime.Report) error {
	if c == nil {
		return nil
	}
	if c.program.Code != nil {
		if err := c.missing(image, rep); err != nil {
			return err
		}
	}
	if c.out != nil {
		rep.Compiled = &c.out.Compiled
	}
	return nil
}
