// Package code makes attempts at programs in languages of the catalogue: where their sources and what they are compiled to
// lie in a sandbox, what they are started with, and what it means that they cannot be.
package code

import (
	"cmp"
	"context"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/assay-run/assay/internal/compile"
	"github.com/assay-run/assay/internal/grade"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Code is a program, a solution, or what decides on one. Its methods do nothing where it is nil: the job's program is in
// no language of the catalogue.
type Code struct {
	language *language.Language
	sources  map[string]string // relative path → text
	main     string            // the one of them that it begins with
	class    string            // in which it begins there; empty: it follows from main
	program  job.Program       // as the spec has it
	how      *job.Compile
	out      *compile.Output // nil: it is not compiled
}

// Of returns what of a program is in a language of the catalogue; nil: nothing. The error says which language is not known.
func Of(p job.Program) (*Code, error) {
	in := p.InLanguage()
	if in == nil {
		return nil, nil
	}
	return newCode(in, p)
}

// OfChecker returns the checker or interactor of tests; nil: there is none, or it is a command of the image.
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

// Language is its name in the catalogue; empty for nil.
func (c *Code) Language() string {
	if c == nil {
		return ""
	}
	return c.language.Name
}

// ToCompile is what is to be compiled, without whose it is and where; nil: the language is not compiled.
func (c *Code) ToCompile() *compile.Program {
	if c == nil || c.language.Compile == nil {
		return nil
	}
	how := job.Compile{Wall: job.Duration(c.language.Compile.Limit()), Memory: c.language.Compile.Memory}
	if c.how != nil {
		how = *c.how
	}
	return &compile.Program{Language: c.language, Sources: c.sources, Main: c.main, How: how}
}

// Keep says what it is compiled to, which is held until Release.
func (c *Code) Keep(out *compile.Output) { c.out = out }

// Release says that what it is compiled to is not needed any more. It may be called again.
func (c *Code) Release() {
	if c != nil && c.out != nil {
		c.out.Release()
		c.out = nil
	}
}

// Uncompiled is the result of a program that does not compile; nil: it does, or is not compiled. No case of its tests has run.
func (c *Code) Uncompiled() *job.Result {
	if c.problem() == "" {
		return nil
	}
	res := &job.Result{Outcome: job.CompileError, Message: clip(c.out.Why), Feedback: c.out.Feedback, Compiled: &c.out.Compiled, ImageDigest: c.out.Digest}
	if t := c.program.Tests; t != nil {
		res.Tests = &job.TestsResult{Total: len(t.Stdio), Score: new(float64), Cases: []job.CaseResult{}}
	}
	return res
}

// problem is why it does not compile.
func (c *Code) problem() string {
	if c == nil || c.out == nil {
		return ""
	}
	return c.out.Why
}

// argv is what the program is started with in a sandbox with so much memory, without its own arguments.
func (c *Code) argv(memory job.Size) []string {
	in := language.Program{Main: c.main, Class: c.class, Files: slices.Sorted(maps.Keys(c.sources)), Out: language.Out, Memory: memory}
	return c.language.Expand(&c.language.Run, in)
}

// Solution is how a grading runs it, in this image.
func (c *Code) Solution(image string) *grade.Solution {
	if c == nil {
		return nil
	}
	return &grade.Solution{Argv: c.argv, Dir: language.Dir, Missing: func(rep *runtime.Report) error { return c.missing(image, rep) }}
}

// Checker is how a grading starts it to decide on outputs. That it does not compile is for the grading to say.
func (c *Code) Checker(image string) *grade.Built {
	if c == nil {
		return nil
	}
	b := &grade.Built{Solution: *c.Solution(image), Env: c.language.Run.Env, Processes: c.language.Run.Processes}
	if why := c.problem(); why != "" {
		b.Problem = clip(why)
		return b
	}
	b.Files = c.files(nil)
	return b
}

// Prepare makes of an attempt at the job one at running what it is compiled to.
func (c *Code) Prepare(in *runtime.Attempt) {
	if c == nil {
		return
	}
	plan := *in.Plan
	env := maps.Clone(c.language.Run.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, plan.Policy.Env.Set) // which wins
	plan.Policy.Env.Set = env
	in.Plan, in.Files = &plan, c.files(in.Files)
	if source, ok := c.Script(&plan.Policy); ok {
		p := c.program.Code
		in.Program = job.Program{Python: &job.Python{Code: source}}
		in.Script = &runtime.Script{Path: path.Join(language.Dir, c.main), Dir: language.Dir, Args: p.Args, Stdin: []byte(p.Stdin)}
	} else if p := c.program.Code; p != nil {
		in.Program = job.Program{Command: &job.Command{Argv: slices.Concat(c.argv(plan.Policy.Memory), p.Args), Stdin: p.Stdin, Dir: language.Dir}}
	}
	if take := in.Collect; take != nil && c.out != nil { // what is ours among the artifacts is none
		in.Collect = func(ctx context.Context, name string, size int64, r io.Reader) error {
			if strings.HasPrefix(name, language.Out+"/") {
				return nil
			}
			return take(ctx, name, size, r)
		}
	}
}

// Script is the source of a program that an interpreter which waits can run, in place of one that is started for it, and
// whether it is one. Rules for imports are for snippets.
func (c *Code) Script(p *policy.Policy) (source string, ok bool) {
	if c == nil || c.program.Code == nil || c.language.Name != language.Python || p.Imports.Any() {
		return "", false
	}
	return c.sources[c.main], true
}

// files adds to a job's its sources and what they are compiled to, in the order of their paths.
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

// missing is an error if the program could not be started for what its image lacks. That it is compiled to
// something that cannot be is its own doing.
func (c *Code) missing(image string, rep *runtime.Report) error {
	argv := c.argv(0)
	if !rep.Unbegun || strings.HasPrefix(argv[0], language.Out+"/") {
		return nil
	}
	return compile.NewMissing(c.language, image, argv, rep)
}

// Complete adds to a report how the program was compiled. It is an error, for the job, if nothing of the program has run
// because the image lacks its language.
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

// clip bounds a message that goes into a row, which takes UTF-8 only.
func clip(s string) string { return strings.ToValidUTF8(job.Clip(s, 1000), "�") }
