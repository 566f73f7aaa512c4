package cheats

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/worker/compile"
	"github.com/assay-run/assay/internal/worker/grade"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/test/corpus"
)

// shop compiles for a fleet, as a worker does.
type shop struct {
	*fleet
	cache *compile.Cache
	runs  atomic.Int64 // of compilers
}

func newShop(t *testing.T, f *fleet) *shop {
	t.Helper()
	c, err := compile.New(filepath.Join(t.TempDir(), "compiled"), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &shop{fleet: f, cache: c}
}

// run implements compile.Make.
func (s *shop) run(ctx context.Context, r compile.Request) (*runtime.Report, error) {
	s.runs.Add(1)
	plan, err := r.Policy.PlanFor(s.rt.Host(), policy.UseCommand)
	if err != nil {
		return nil, err
	}
	slot, err := s.acquire(ctx, "command", "")
	if err != nil {
		return nil, err
	}
	defer slot.Close()
	return slot.Run(ctx, runtime.Attempt{
		Job: job.NewID(), Lease: 1, Deadline: time.Now().Add(5 * time.Minute), Program: job.Program{Command: &r.Command},
		Files: r.Files, Plan: plan, Collect: r.Collect,
	})
}

// compiled returns the compiled output of a source, for a tenant.
func (s *shop) compiled(t *testing.T, tenant string, l *language.Language, source string, flags ...string) *compile.Output {
	t.Helper()
	p := policy.Default()
	p.Isolation = s.isolation
	header, err := os.ReadFile("compiled/cheat.h")
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.cache.Get(t.Context(), &compile.Program{
		Tenant: tenant, Image: "python", Language: l, Main: l.File, Sources: map[string]string{l.File: source, "cheat.h": string(header)},
		How: job.Compile{Wall: job.Duration(5 * time.Minute), Memory: l.Compile.Memory, Flags: flags}, Policy: &p,
	}, s.run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Release)
	return out
}

// judge grades a compiled program as a worker does, with all cases side by side.
func (s *shop) judge(t *testing.T, l *language.Language, out *compile.Output, tests *job.Tests, blobs map[string]string) (*runtime.Report, error) {
	t.Helper()
	argv := func(memory job.Size) []string {
		return l.Expand(&l.Run, language.Program{Main: l.File, Files: []string{l.File}, Out: language.Out, Memory: memory})
	}
	return grade.Run(t.Context(), grade.Config{
		Tests: tests, Checker: builtOf(t, tests.CheckerCode()), Acquire: s.acquire,
		Attempt:  runtime.Attempt{Job: job.NewID(), Lease: 1, Plan: s.plan(t, casesOfCompiled), Deadline: time.Now().Add(5 * time.Minute), Files: out.Files},
		Solution: &grade.Solution{Argv: argv, Dir: language.Dir, Missing: func(*runtime.Report) error { return nil }},
		Beside:   func() (func(), bool) { return func() {}, true },
		Blob: func(_ context.Context, ref string) (*grade.Blob, error) {
			open := func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(blobs[ref])), nil }
			return &grade.Blob{File: runtime.File{Open: open}, Bytes: int64(len(blobs[ref])), Close: func() {}}, nil
		},
	})
}

// casesOfCompiled gives a case enough time for its attempt, on a busy host, too. Endless programs
// have less.
func casesOfCompiled(p *policy.Policy) { p.Wall, p.Memory = job.Duration(20*time.Second), 128*job.MiB }

// short has the endless programs.
var short = map[string]bool{"stops_itself.c": true, "closes_everything.c": true, "flood.c": true}

// casesFor returns three cases with different answers, which a program can only know by copying its
// input.
func casesFor(s corpus.Source) *job.Tests {
	tests := &job.Tests{Language: s.Language.Name}
	for range 3 {
		answer := secretNumber()
		c := job.Stdio{Stdin: "question\n", Stdout: answer}
		if s.Outcomes[0] == job.Succeeded {
			c.Stdin = answer + "\n"
		}
		if short[s.Name] {
			c.Wall = job.Duration(2 * time.Second)
		}
		tests.Stdio = append(tests.Stdio, c)
	}
	return tests
}

// No compiled program forges a pass or an excuse, whether its output is compared or a checker
// decides.
func TestNoCompiledProgramForgesAPass(t *testing.T) {
	sources, err := corpus.Sources(os.DirFS("compiled"), 20)
	if err != nil {
		t.Fatal(err)
	}
	eachWall(t, func(t *testing.T, f *fleet) {
		s := newShop(t, f)
		for _, src := range part(t, f, sources) {
			t.Run(src.Name, func(t *testing.T) {
				t.Parallel()
				out := s.compiled(t, "test", src.Language, src.Text)
				if out.Why != "" {
					if !slices.Contains(src.Outcomes, job.CompileError) {
						t.Errorf("it does not compile: %s\n%s", out.Why, out.Compiled.Stderr.Text)
					}
					unobeyed(t, out.Why)
					return
				}
				before := contentsOf(t, out)
				for _, checked := range []bool{false, true} {
					tests := casesFor(src)
					if checked {
						open := strings.Replace(fair, `assert open(sys.argv[1], "rb").read() == b"question"`, "", 1)
						tests.Checker = &job.Checker{Code: &job.Code{Language: "python", Source: open}, Memory: job.DefaultCheckerMemory, Wall: job.DefaultCheckerWall}
					}
					rep, err := s.judge(t, src.Language, out, tests, nil)
					if err != nil {
						t.Fatal(err)
					}
					judged(t, src, rep)
				}
				if after := contentsOf(t, s.compiled(t, "test", src.Language, src.Text)); after != before {
					t.Error("ESCAPED: what it was compiled to has changed")
				}
			})
		}
	})
}

// judged checks the result of a program.
func judged(t *testing.T, src corpus.Source, rep *runtime.Report) {
	t.Helper()
	want := map[bool]int{true: 3}[src.Outcomes[0] == job.Succeeded]
	if rep.Tests == nil || rep.Tests.Score == nil || rep.Tests.Passed != want || rep.Tests.Errors != 0 || rep.Outcome != map[bool]job.Outcome{true: job.Succeeded, false: job.Failed}[want == 3] {
		t.Fatalf("%s (%s): forged, or excused: %+v", rep.Outcome, rep.Message, rep.Tests)
	}
	for _, c := range rep.Tests.Cases {
		if strings.Contains(c.Got+c.Message+c.Stderr, "ESCAPED") {
			t.Errorf("%s: %s %s", c.Name, c.Got, c.Message)
		}
		if c.Outcome == job.CheckError || c.Outcome == job.SetupError {
			t.Errorf("an excuse: %+v", c)
		}
	}
	if strings.Contains(rep.Stdout.Text+rep.Stderr.Text, "ESCAPED") {
		t.Errorf("%s%s", rep.Stdout.Text, rep.Stderr.Text)
	}
}

// contentsOf returns all files of a compiled program.
func contentsOf(t *testing.T, out *compile.Output) string {
	t.Helper()
	var all strings.Builder
	for _, f := range out.Files {
		r, err := f.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&all, f.Path)
		if _, err := io.Copy(&all, r); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
	}
	return all.String()
}

// unobeyed checks that a message has no control sequences for terminals.
func unobeyed(t *testing.T, message string) {
	t.Helper()
	if strings.ContainsAny(message, "\x00\x1b\x07\u202e\n") {
		t.Errorf("the message is %q", message)
	}
}

// eachWall runs f once for every isolation, without preloaded imports, which do not affect compiled
// programs.
func eachWall(t *testing.T, f func(*testing.T, *fleet)) {
	for _, isolation := range isolations {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			f(t, newFleet(t, isolation))
		})
	}
}

// Only its own tenant gets the compiled output of a source, whatever files the compiler was made to
// leave beside it.
func TestCompiledFilesAreTheirTenants(t *testing.T) {
	const text = "// " + "tries\n#include <stdio.h>\nint main(void) { puts(\"nothing\"); }\n"
	c, err := language.Find("c")
	if err != nil {
		t.Fatal(err)
	}
	eachWall(t, func(t *testing.T, f *fleet) {
		s := newShop(t, f)
		extra := []string{"-save-temps=obj", "-fdump-tree-all", "-dumpdir", language.Out + "/sub.", "-frandom-seed=1"}
		first := s.compiled(t, "test", c, text, extra...)
		if len(first.Files) < 3 {
			t.Fatalf("the compiler left %d files: %s %s", len(first.Files), first.Why, first.Compiled.Stderr.Text)
		}
		for _, next := range []struct {
			tenant string
			flags  []string
			cached bool
		}{{"test", extra, true}, {"test", nil, false}, {"other", extra, false}, {"other", nil, false}} {
			out := s.compiled(t, next.tenant, c, text, next.flags...)
			if out.Compiled.Cached != next.cached || len(next.flags) == 0 && len(out.Files) != 1 {
				t.Errorf("%s %v: cached %v, %d files", next.tenant, next.flags, out.Compiled.Cached, len(out.Files))
			}
		}
		if n := s.runs.Load(); n != 4 {
			t.Errorf("it was compiled %d times", n)
		}
	})
}

// Many concurrent requests for the same source, of two tenants, compile it once for each tenant.
func TestCompiledOnceForEachTenant(t *testing.T) {
	const text = "#include <stdio.h>\nint main(void) { puts(\"nothing\"); }\n"
	c, err := language.Find("c")
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, newFleet(t, policy.Cell))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { s.compiled(t, []string{"test", "other"}[i%2], c, text) })
	}
	all.Wait()
	if n := s.runs.Load(); n != 2 {
		t.Errorf("it was compiled %d times", n)
	}
}
