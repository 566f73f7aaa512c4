package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// preloadRuntime is a runtime whose programs may import packages of these wheels.
func preloadRuntime(t *testing.T, wheels map[string][]byte) *Runtime {
	t.Helper()
	x := newIndex(t, wheels)
	return newRuntime(t, func(c *Config) { c.Index, c.Environments, c.PreloadMemory = Index{URL: x.url}, t.TempDir(), job.GiB })
}

// importing is a job of a program that imports modules.
type importing struct {
	r        *Runtime
	packages []string
	imports  string
	edit     func(*policy.Policy)
	files    []runtime.File
	tenant   string
}

func (i importing) run(t testing.TB, code string) (rep *runtime.Report, preloaded bool) {
	t.Helper()
	made := plan(t, policy.Host{Isolations: []policy.Isolation{policy.Cell}}, policy.Cell, func(p *policy.Policy) {
		p.Packages = i.packages
		if i.edit != nil {
			i.edit(p)
		}
	})
	s, err := i.r.Acquire(t.Context(), runtime.Key{
		Tenant: "test" + i.tenant, Image: testenv.Image, Isolation: policy.Cell, Kind: "python", Packages: made.Policy.Requirements(),
		Imports: i.imports, CPU: made.Policy.CPU,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := s.(*cellSlot)
	preloaded = c.preload != nil && c.preload.suits(&runtime.Attempt{Program: pySnippet(code), Plan: made, Files: i.files})
	rep, err = s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: pySnippet(code), Plan: made, Files: i.files})
	if err != nil {
		t.Fatal(err)
	}
	return rep, preloaded
}

// warm runs code until a program is forked from an interpreter that has its imports.
func (i importing) warm(t testing.TB, code string) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		rep, preloaded := i.run(t, code)
		if rep.Outcome != job.Succeeded {
			t.Fatalf("%s: %s\n%s", rep.Outcome, rep.Message, rep.Stderr.Text)
		}
		if preloaded {
			return
		}
	}
	i.r.cells.loaded.mu.Lock()
	defer i.r.cells.loaded.mu.Unlock()
	t.Fatal("no interpreter has the imports: ", fmt.Sprint(i.r.cells.loaded.took, i.r.cells.loaded.bad))
}

func TestPreloadTry(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.PreloadMemory = job.GiB })
	i := importing{r: r, imports: "asyncio"}
	code := "import asyncio\nprint(asyncio.__name__)"
	i.warm(t, code)
	for range 100 {
		began := time.Now()
		rep, pre := i.run(t, code)
		t.Log(rep.Outcome, rep.Stdout.Text, rep.Stderr.Text, pre, rep.Usage.CPUMS, rep.Usage.WallMS, time.Since(began))
	}
}

func TestPreloadNumpy(t *testing.T) {
	wheels := map[string][]byte{}
	files, _ := filepath.Glob(os.Getenv("ZYG_WHEELS") + "/*.whl")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		wheels[filepath.Base(f)] = data
	}
	r := preloadRuntime(t, wheels)
	for _, i := range []importing{
		{r: r, imports: "numpy", packages: []string{"numpy"}},
		{r: r, imports: "pandas scipy sympy", packages: []string{"pandas", "scipy", "sympy"}},
	} {
		code := ""
		for _, m := range strings.Fields(i.imports) {
			code += "import " + m + "\n"
		}
		rep, _ := i.run(t, code)
		t.Log("first", rep.Outcome, rep.Usage.CPUMS, rep.Usage.WallMS, rep.Message, rep.Stderr.Text)
		i.warm(t, code)
		time.Sleep(time.Second)
		for range 5 {
			began := time.Now()
			rep, pre := i.run(t, code)
			t.Log(rep.Outcome, rep.Stdout.Text, rep.Stderr.Text, pre, rep.Usage.CPUMS, rep.Usage.WallMS, rep.Usage.MemoryPeakBytes>>20, time.Since(began))
		}
		began := time.Now()
		for range 50 {
			i.run(t, code)
		}
		t.Log("rate", 50/time.Since(began).Seconds())
		code += "print(sympy.randprime(2,10**9) if 'sympy' in globals() else numpy.random.rand())\n"
		for range 3 {
			rep, pre := i.run(t, code)
			t.Log(rep.Stdout.Text, rep.Stderr.Text, pre)
		}
	}
	n, m := r.cells.loaded.levels()
	t.Log(n, m>>20, r.cells.loaded.took)
}
