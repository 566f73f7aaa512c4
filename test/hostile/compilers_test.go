package hostile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/internal/worker/compile"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/test/corpus"
)

// compilers compiles for an arena, as a worker does.
type compilers struct {
	*arena
	cache *compile.Cache
	dir   string // of the cache
}

// compileTime is the limit of a compiler here. It is enough for any that ends, and bounds the time
// that others take of this test.
const compileTime = 5 * time.Second

// TestCompilers compiles attacks, at every isolation of this host. Each compiler ends, with a
// verdict and its reason, and without data of the host in its messages or output. The outcome
// succeeded allows a program, which is not run here.
func TestCompilers(t *testing.T) {
	rt, stateDir := newRuntime(t)
	h := newHost(t, rt, stateDir)
	sources, err := corpus.Sources(os.DirFS("compilers"), 25)
	if err != nil {
		t.Fatal(err)
	}
	for _, isolation := range rt.Host().Isolations {
		t.Run(string(isolation), func(t *testing.T) {
			c := &compilers{arena: &arena{rt: rt, isolation: isolation, host: h}, dir: filepath.Join(t.TempDir(), "compiled")}
			var err error
			if c.cache, err = compile.New(c.dir, 1<<30); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.cache.Close)
			c.canary(t)
			h.settle(t)
			t.Run("programs", func(t *testing.T) {
				for _, s := range c.partOf(t, sources) {
					t.Run(s.Name, func(t *testing.T) {
						t.Parallel()
						c.attacked(t, s)
					})
				}
			})
			h.clean(t)
		})
	}
}

// partOf returns the part for a usual run: compilers that never end take most of the time of this
// package.
func (c *compilers) partOf(t *testing.T, all []corpus.Source) []corpus.Source {
	t.Helper()
	if c.isolation == policy.GVisor {
		return testenv.Of(t, gvisorPart, all)
	}
	return testenv.Of(t, compilersPart, all)
}

// attacked compiles one attack and checks the result.
func (c *compilers) attacked(t *testing.T, s corpus.Source) {
	mark := string(job.NewID())
	p := policy.Default()
	p.Isolation, p.Env.Set = c.isolation, c.host.bait.Env(mark, c.rt.Cgroup())
	began, rep := time.Now(), (*runtime.Report)(nil)
	out, err := c.cache.Get(t.Context(), &compile.Program{
		Tenant: attacker, Image: testenv.Image, Language: s.Language, Main: s.Language.File, Sources: map[string]string{s.Language.File: s.Text},
		How:    job.Compile{Wall: job.Duration(compileTime), Memory: s.Language.Compile.Memory, Flags: []string{fmt.Sprintf("-DBAIT=%q", c.host.bait.file)}},
		Policy: &p,
	}, func(ctx context.Context, r compile.Request) (_ *runtime.Report, err error) {
		rep, err = c.make(ctx, r)
		return rep, err
	})
	if err != nil {
		t.Fatalf("our failure, not the source's: %v", err)
	}
	defer out.Release()
	if took := time.Since(began); took > compileTime+5*time.Minute {
		t.Errorf("it took %s", took)
	}
	c.verdict(t, s, out)
	kept := map[string][]byte{}
	for i, f := range out.Files {
		if kept[f.Path], err = os.ReadFile(filepath.Join(c.ofOutput(t, f), fmt.Sprint(i))); err != nil {
			t.Error(err)
		}
	}
	c.host.untouched(t, mark, rep, kept)
	c.canary(t)
	t.Logf("%s, %s: %.300q", out.Compiled.Outcome, time.Since(began).Round(time.Millisecond), out.Why)
}

// verdict checks the verdict on a source.
func (c *compilers) verdict(t *testing.T, s corpus.Source, out *compile.Output) {
	t.Helper()
	if !slices.Contains(s.Outcomes, out.Compiled.Outcome) {
		t.Errorf("%s (%s), want %s\n%.2000s", out.Compiled.Outcome, out.Why, s.Outcomes, out.Compiled.Stderr.Text)
	}
	if out.Compiled.Outcome != job.Succeeded && (out.Why == "" || len(out.Files) > 0) {
		t.Errorf("%s, and there are %d files of it: %q", out.Compiled.Outcome, len(out.Files), out.Why)
	}
	if len(out.Why) > 1000 || strings.ContainsAny(out.Why, "\x00\x1b\x07\u202e\n") {
		t.Errorf("%d bytes of reason: %.1000q", len(out.Why), out.Why)
	}
	if n := len(out.Compiled.Stdout.Text) + len(out.Compiled.Stderr.Text); n > 100<<10 {
		t.Errorf("%d bytes of its words are kept", n)
	}
}

// ofOutput returns the directory of a file of an output.
func (c *compilers) ofOutput(t *testing.T, f runtime.File) string {
	t.Helper()
	r, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	name, ok := r.(*os.File)
	if !ok || !strings.HasPrefix(name.Name(), c.dir) {
		t.Fatalf("%s does not lie in %s", f.Path, c.dir)
	}
	return filepath.Dir(name.Name())
}

// make implements compile.Make.
func (c *compilers) make(ctx context.Context, r compile.Request) (*runtime.Report, error) {
	plan, err := r.Policy.PlanFor(c.rt.Host(), policy.UseCommand)
	if err != nil {
		return nil, err
	}
	slot, err := c.rt.Acquire(ctx, runtime.Key{Tenant: attacker, Image: testenv.Image, Isolation: c.isolation, Kind: "command"})
	if err != nil {
		return nil, err
	}
	defer slot.Close()
	return slot.Run(ctx, runtime.Attempt{
		Job: job.NewID(), Lease: 1, Program: job.Program{Command: &r.Command}, Plan: plan, Files: r.Files, Deadline: time.Now().Add(time.Hour), Collect: r.Collect,
	})
}
