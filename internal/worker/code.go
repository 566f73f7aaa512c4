package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/assay-run/assay/internal/compile"
	"github.com/assay-run/assay/internal/grade"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/internal/worker/capacity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// code is a program, or a solution, in a language of the catalogue. Its methods do nothing where it is nil: the job's
// program is in none.
type code struct {
	language *language.Language
	sources  map[string]string // relative path → text
	main     string            // the one of them that it begins with
	program  job.Program       // as the spec has it
	how      *job.Compile
	out      *compile.Output // nil: it is not compiled
}

// codeOf returns what of a program is in a language of the catalogue.
func codeOf(p job.Program) (*code, error) {
	in := p.InLanguage()
	if in == nil {
		return nil, nil
	}
	return newCode(in, p)
}

func newCode(in *job.Code, p job.Program) (*code, error) {
	l, err := language.Find(in.Language)
	if err != nil {
		return nil, refuse("%v", err)
	}
	c := &code{language: l, sources: in.Files, main: in.Main, program: p, how: in.Compile}
	if c.main == "" {
		c.main = l.File
	}
	if len(c.sources) == 0 {
		c.sources = map[string]string{c.main: in.Source}
	}
	return c, nil
}

// compile has the program compiled, if its language is. It returns the result of one that does not compile.
func (a *attempt) compile(ctx context.Context) (refused *job.Result, err error) {
	c := a.code
	if err := a.makeOutput(ctx, c); err != nil || c.out == nil || c.out.Why == "" {
		return nil, err
	}
	c.out.Release()
	return c.uncompiled(), nil
}

// makeOutput has c compiled, if its language is. What the compiler refuses is no error.
func (a *attempt) makeOutput(ctx context.Context, c *code) (err error) {
	if c.language.Compile == nil {
		return nil
	}
	how := job.Compile{Wall: job.Duration(c.language.Compile.Limit()), Memory: c.language.Compile.Memory}
	if c.how != nil {
		how = *c.how
	}
	ctx, end := telemetry.Within(ctx, "compile", telemetry.KindKey.String(c.language.Name))
	c.out, err = a.compiled.Get(ctx, &compile.Program{
		Tenant: a.claimed.Tenant, Image: a.spec.Image, Digest: a.imageDigest(),
		Language: c.language, Sources: c.sources, Main: c.main, How: how, Policy: &a.plan.Policy,
	}, a.runCompiler)
	end(err)
	if missing := new(compile.Missing); errors.As(err, &missing) {
		return refuse("%v", missing)
	}
	if err == nil {
		a.metrics.compiled(ctx, c.language.Name, c.out.Compiled.Cached)
	}
	return err
}

// imageDigest is that of the job's image, if the runtime knows it already.
func (a *attempt) imageDigest() string {
	if lister, ok := a.Runtime.(runtime.ImageLister); ok {
		return lister.ImageDigests()[a.spec.Image]
	}
	return ""
}

// runCompiler is a compile.Make: it runs what is asked in a slot of its own, once there is room for it.
func (a *attempt) runCompiler(ctx context.Context, r compile.Request) (*runtime.Report, error) {
	host, _ := a.proof.State()
	plan, err := r.Policy.PlanFor(host, policy.UseCommand)
	if err != nil {
		return nil, refuse("the compiler cannot run here: %v", err)
	}
	need := capacity.NeedOf(r.Policy)
	if a.capacity.TooLarge(need) {
		return nil, refuse("compile.memory: %s is more than the %s of this worker", r.Policy.Memory, a.cfg.Memory)
	}
	room, err := a.capacity.Enter(ctx, need)
	if err != nil {
		return nil, err
	}
	defer room.Leave()
	a.leases.enter(a.lease, running)
	return runOrBlame(ctx, a, func() (*runtime.Report, error) {
		slot, err := a.slot(ctx, runtime.Key{Kind: "command"})
		if err != nil {
			return nil, err
		}
		defer slot.Close()
		rep, err := slot.Run(ctx, runtime.Attempt{
			Job: a.lease.Job, Lease: a.lease.Lease, Deadline: a.leases.deadline(a.lease),
			Program: job.Program{Command: &r.Command}, Files: r.Files, Plan: plan, Collect: r.Collect,
		})
		if err != nil {
			return nil, fmt.Errorf("compile: %w", err)
		}
		return rep, nil
	})
}

// release says that what it is compiled to is not needed any more.
func (c *code) release() {
	if c != nil && c.out != nil {
		c.out.Release()
	}
}

// uncompiled is the result of a program that does not compile. No case of its tests has run.
func (c *code) uncompiled() *job.Result {
	res := &job.Result{Outcome: job.CompileError, Message: clip(c.out.Why), Compiled: &c.out.Compiled, ImageDigest: c.out.Digest}
	if t := c.program.Tests; t != nil {
		res.Tests = &job.TestsResult{Total: len(t.Stdio), Score: new(float64), Cases: []job.CaseResult{}}
	}
	return res
}

// argv is what the program is started with in a sandbox with so much memory, without its own arguments.
func (c *code) argv(memory job.Size) []string {
	in := language.Program{Main: c.main, Files: slices.Sorted(maps.Keys(c.sources)), Out: language.Out, Memory: memory}
	return c.language.Expand(&c.language.Run, in)
}

// solution is how a grading runs it.
func (c *code) solution(image string) *grade.Solution {
	if c == nil {
		return nil
	}
	return &grade.Solution{Argv: c.argv, Dir: language.Dir, Missing: func(rep *runtime.Report) error { return c.missing(image, rep) }}
}

// prepare makes of an attempt at the job one at running what it is compiled to.
func (c *code) prepare(in *runtime.Attempt) {
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
	if p := c.program.Code; c.isScript(&plan.Policy) {
		in.Program = job.Program{Python: &job.Python{Code: c.sources[c.main]}}
		in.Script = &runtime.Script{Path: path.Join(language.Dir, c.main), Args: p.Args, Stdin: []byte(p.Stdin)}
	} else if p != nil {
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

// isScript says that an interpreter which waits can run the program, in place of one that is started for it. Rules for
// imports are for snippets.
func (c *code) isScript(p *policy.Policy) bool {
	return c != nil && c.program.Code != nil && c.language.Name == language.Python && !p.Imports.Any()
}

// first is the kind of the slot in which the attempt begins, and the python code that will run
// there, if it is known.
func (a *attempt) first() (kind, code string) {
	switch p := &a.spec.Program; {
	case p.Tests != nil:
		return grade.First(p.Tests)
	case p.Python != nil:
		return p.Kind(), p.Python.Code
	case a.code.isScript(&a.plan.Policy):
		return "python", a.code.sources[a.code.main]
	default:
		return "command", ""
	}
}

// files adds to a job's its sources and what they are compiled to, in the order of their paths.
func (c *code) files(files []runtime.File) []runtime.File {
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
func (c *code) missing(image string, rep *runtime.Report) error {
	argv := c.argv(0)
	if !rep.Unbegun || strings.HasPrefix(argv[0], language.Out+"/") {
		return nil
	}
	return compile.NewMissing(c.language, image, argv, rep)
}

// complete adds to a report how the program was compiled. It is an error if nothing of the program has run.
func (c *code) complete(image string, rep *runtime.Report) error {
	if c == nil {
		return nil
	}
	if c.program.Code != nil {
		if err := c.missing(image, rep); err != nil {
			return refuse("%v", err)
		}
	}
	if c.out != nil {
		rep.Compiled = &c.out.Compiled
	}
	return nil
}
