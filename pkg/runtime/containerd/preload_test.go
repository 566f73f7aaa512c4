package containerd

import (
	"cmp"
	"fmt"
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
	tenant   string // default test
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
		Tenant: cmp.Or(i.tenant, "test"), Image: testenv.Image, Isolation: policy.Cell, Kind: "python", Packages: made.Policy.Requirements(),
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
