package compile

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

func of(t *testing.T, p job.Program) *Code {
	t.Helper()
	c, err := Of(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// prepared returns an attempt at c under the default policy, with these variables and files of the
// job.
func prepared(c *Code, env map[string]string, files ...runtime.File) *runtime.Attempt {
	p := policy.Default()
	p.Env.Set = env
	a := &runtime.Attempt{Plan: &policy.Plan{Policy: p}, Files: files}
	c.Prepare(a)
	return a
}

// compiled stores a compilation of c with that outcome in a cache.
func compiled(t *testing.T, c *Code, outcome job.Outcome) {
	t.Helper()
	cache, err := New(filepath.Join(t.TempDir(), "compiled"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	p, defaults := c.ToCompile(), policy.Default()
	p.Tenant, p.Image, p.Policy = "a", "python", &defaults
	out, err := cache.Get(t.Context(), p, func(ctx context.Context, r Request) (*runtime.Report, error) {
		one := 1
		if outcome != job.Succeeded {
			return &runtime.Report{Result: job.Result{Outcome: outcome, ExitCode: &one, Stderr: job.Output{Text: "main.c:1:1: error: \xff\x1b[31mno"}}}, nil
		}
		return &runtime.Report{Result: job.Result{Outcome: outcome, ExitCode: new(int)}}, r.Collect(ctx, language.Out+"/main", 3, strings.NewReader("ELF"))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	c.Keep(out)
}

func TestNothingOfTheCatalogue(t *testing.T) {
	c := of(t, job.Program{Command: &job.Command{Argv: []string{"true"}}})
	if c != nil {
		t.Fatalf("a command is in a language: %+v", c)
	}
	a := &runtime.Attempt{Program: job.Program{Command: &job.Command{Argv: []string{"true"}}}}
	c.Prepare(a)
	if c.Language() != "" || c.ToCompile() != nil || c.Uncompiled() != nil || c.Solution("i") != nil || c.Checker("i") != nil || c.Complete("i", nil) != nil || a.Program.Command.Argv[0] != "true" {
		t.Error("something is made of it")
	}
	c.Release()
	if _, err := Of(job.Program{Code: &job.Code{Language: "klingon", Source: "x"}}); err == nil || !strings.Contains(err.Error(), "klingon") {
		t.Errorf("%v", err)
	}
}

func TestToCompile(t *testing.T) {
	c := of(t, job.Program{Code: &job.Code{Language: "c", Source: "int main(void) {}"}})
	p := c.ToCompile()
	if p.Main != "main.c" || p.Sources["main.c"] != "int main(void) {}" || p.How.Wall <= 0 || p.How.Memory <= 0 {
		t.Errorf("%+v", p)
	}
	own := &job.Compile{Wall: job.Duration(time.Second), Memory: job.MiB, Flags: []string{"-O1"}}
	p = of(t, job.Program{Code: &job.Code{Language: "c", Files: map[string]string{"a.c": "", "b.h": ""}, Main: "a.c", Compile: own}}).ToCompile()
	if p.Main != "a.c" || len(p.Sources) != 2 || p.How.Wall != own.Wall || p.How.Flags[0] != "-O1" {
		t.Errorf("%+v", p)
	}
	if p := of(t, job.Program{Code: &job.Code{Language: "lua", Source: "x"}}).ToCompile(); p != nil {
		t.Errorf("lua is compiled: %+v", p)
	}
}

// The sources have the names that their tools need, and no byte order marks.
func TestSources(t *testing.T) {
	for name, c := range map[string]struct {
		code *job.Code
		main string
		argv string // the last argument
	}{
		"java":    {&job.Code{Language: "java", Source: "\ufeffpackage a.b; public class Solution { public static void main(String[] args) { } }"}, "Solution.java", "a.b.Solution"},
		"main":    {&job.Code{Language: "java", Main: "a/B.java", Files: map[string]string{"a/B.java": "\ufeffpackage a; class B { }", "in": "\ufeff"}}, "a/B.java", "a.B"},
		"bash":    {&job.Code{Language: "bash", Source: "\ufeffecho"}, "main.sh", "main.sh"},
		"another": {&job.Code{Language: "cpp", Source: "\ufeffint main() { }"}, "main.cpp", language.Out + "/main"},
	} {
		of := of(t, job.Program{Code: c.code})
		argv := of.argv(job.GiB)
		if of.main != c.main || argv[len(argv)-1] != c.argv || strings.HasPrefix(of.sources[of.main], "\ufeff") {
			t.Errorf("%s: %s, %q, %q", name, of.main, argv, of.sources)
		}
		if text, ok := of.sources["in"]; ok && text != "\ufeff" {
			t.Errorf("%s: another file became %q", name, text)
		}
	}
}

func TestPrepare(t *testing.T) {
	c := of(t, job.Program{Code: &job.Code{Language: "c", Source: "int main(void) {}", Args: []string{"-x"}, Stdin: "in"}})
	compiled(t, c, job.Succeeded)
	a := prepared(c, map[string]string{"LANG": "mine"}, runtime.File{Path: "/workspace/z"})
	command := a.Program.Command
	if command == nil || !slices.Equal(command.Argv, []string{language.Out + "/main", "-x"}) || command.Stdin != "in" || command.Dir != language.Dir {
		t.Errorf("%+v", a.Program)
	}
	var paths []string
	for _, f := range a.Files {
		paths = append(paths, f.Path)
	}
	if !slices.IsSorted(paths) || !slices.Contains(paths, "/workspace/z") || !slices.Contains(paths, language.Dir+"/main.c") || !slices.ContainsFunc(paths, func(p string) bool { return strings.HasSuffix(p, "/main") }) {
		t.Errorf("its files are %q", paths)
	}
	if a.Plan.Policy.Env.Set["LANG"] != "mine" {
		t.Errorf("its variables are %v", a.Plan.Policy.Env.Set)
	}
}

// The variables of a language are set unless the job sets them.
func TestVariables(t *testing.T) {
	for _, l := range language.All() {
		for key, value := range l.Run.Env {
			c := of(t, job.Program{Code: &job.Code{Language: l.Name, Source: "x"}})
			if got := prepared(c, nil).Plan.Policy.Env.Set[key]; got != value {
				t.Errorf("%s: %s is %q, want %q", l.Name, key, got, value)
			}
			if got := prepared(c, map[string]string{key: "mine"}).Plan.Policy.Env.Set[key]; got != "mine" {
				t.Errorf("%s: %s is %q, though the job sets it", l.Name, key, got)
			}
			if l.Run.Env[key] != value {
				t.Fatalf("%s: the catalogue has changed", l.Name)
			}
		}
	}
}

func TestPythonIsForked(t *testing.T) {
	c := of(t, job.Program{Code: &job.Code{Language: "python", Source: "print(1)", Args: []string{"a"}, Stdin: "in"}})
	a := prepared(c, nil)
	if a.Program.Python == nil || a.Program.Python.Code != "print(1)" || a.Script == nil || string(a.Script.Stdin) != "in" || !slices.Equal(a.Script.Args, []string{"a"}) {
		t.Errorf("%+v, %+v", a.Program, a.Script)
	}
	p := policy.Default()
	p.Imports.Deny = []string{"os"}
	if _, ok := c.Script(&p); ok {
		t.Error("rules for imports are not held")
	}
}

// Compiled files are not artifacts, even if the program has written them again.
func TestCollect(t *testing.T) {
	c := of(t, job.Program{Code: &job.Code{Language: "c", Source: "int main(void) {}"}})
	compiled(t, c, job.Succeeded)
	var names []string
	p := policy.Default()
	a := &runtime.Attempt{Plan: &policy.Plan{Policy: p}, Collect: func(_ context.Context, name string, _ int64, _ io.Reader) error {
		names = append(names, name)
		return nil
	}}
	c.Prepare(a)
	for _, name := range []string{language.Out + "/main", "/workspace/out/kept"} {
		if err := a.Collect(t.Context(), name, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(names, []string{"/workspace/out/kept"}) {
		t.Errorf("kept: %q", names)
	}
}

func TestUncompiled(t *testing.T) {
	p := job.Program{Tests: &job.Tests{Language: "c", Code: "int main(void) {", Stdio: []job.Stdio{{}, {}}}}
	c := of(t, p)
	compiled(t, c, job.Failed)
	r := c.Uncompiled()
	if r == nil || r.Outcome != job.CompileError || r.Message == "" || r.Tests == nil || r.Tests.Total != 2 || *r.Tests.Score != 0 {
		t.Fatalf("%+v", r)
	}
	if r.Message != strings.ToValidUTF8(r.Message, "") {
		t.Errorf("no row takes %q", r.Message)
	}
	c = of(t, p)
	compiled(t, c, job.Succeeded)
	if r := c.Uncompiled(); r != nil {
		t.Errorf("it compiles: %+v", r)
	}
}

// An image that lacks a language is the job's fault. A compiled program that cannot be started is
// the program's fault.
func TestMissing(t *testing.T) {
	unbegun := &runtime.Report{Unbegun: true, Result: job.Result{Outcome: job.Failed}}
	if err := of(t, job.Program{Code: &job.Code{Language: "lua", Source: "x"}}).Complete("small", unbegun); err == nil || !strings.Contains(err.Error(), "the image small does not have it") {
		t.Errorf("%v", err)
	}
	c := of(t, job.Program{Code: &job.Code{Language: "c", Source: "x"}})
	compiled(t, c, job.Succeeded)
	if err := c.Complete("small", unbegun); err != nil || unbegun.Compiled == nil {
		t.Errorf("%v, %+v", err, unbegun.Compiled)
	}
}
