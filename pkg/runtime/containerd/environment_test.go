package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/environment/environmenttest"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

func withPackages(t *testing.T, r *Runtime, isolation policy.Isolation, p job.Program, packages ...string) (*runtime.Report, error) {
	t.Helper()
	return ofTenant(t, r, "test", isolation, p, packages...)
}

// ofTenant is withPackages for a job of some tenant's.
func ofTenant(t *testing.T, r *Runtime, tenant string, isolation policy.Isolation, p job.Program, packages ...string) (*runtime.Report, error) {
	t.Helper()
	made := runtimetest.Plan(t, policy.Host{Isolations: []policy.Isolation{isolation}}, isolation, func(p *policy.Policy) { p.Packages = packages })
	s, err := r.Acquire(t.Context(), runtime.Key{
		Tenant: tenant, Image: testenv.Image, Isolation: isolation, Kind: p.Kind(), Packages: made.Policy.Requirements(),
	})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Run(t.Context(), runtime.Attempt{Program: p, Plan: made})
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	x := environmenttest.Serve(t, map[string][]byte{
		"assay_hello-1.0-py3-none-any.whl": environmenttest.Wheel(t, "assay_hello", "1.0", "WHO = 'world'\ndef main(): print('script')\n"),
	})
	kept := t.TempDir()
	r := newRuntime(t, func(c *Config) { c.Index, c.Environments = environment.Index{URL: x.URL}, kept })
	uses := pySnippet(`
import assay_hello, os, urllib.request
print(assay_hello.WHO, assay_hello.__file__)
try: open(assay_hello.__file__, "a"); print("writable")
except OSError: pass
try: urllib.request.urlopen("` + x.URL + `/", timeout=2); print("online")
except OSError: pass`)

	// Many at once, at both isolations: it is built once.
	var wg sync.WaitGroup
	for i := range 6 {
		isolation := []policy.Isolation{policy.Cell, policy.Task}[i%2]
		wg.Go(func() {
			rep, err := withPackages(t, r, isolation, uses, "assay_hello >= 1")
			if err != nil {
				t.Errorf("%s: %v", isolation, err)
				return
			}
			want := "world /usr/local/lib/python3.11/dist-packages/assay_hello/__init__.py\n"
			if rep.Stdout.Text != want || rep.Outcome != job.Succeeded {
				t.Errorf("%s: %s %q %+v", isolation, rep.Outcome, rep.Stdout.Text, rep.Exception)
			}
			if lock := "assay_hello==1.0 --hash=sha256:" + x.Sums["assay_hello"]; len(rep.Packages) != 1 || rep.Packages[0] != lock {
				t.Errorf("packages %q, want %s", rep.Packages, lock)
			}
		})
	}
	wg.Wait()
	if n := x.Asked.Load(); n != 1 {
		t.Errorf("the wheel was fetched %d times, want once", n)
	}
	script := job.Program{Command: &job.Command{Argv: []string{"assay_hello"}}}
	if rep, err := withPackages(t, r, policy.Cell, script, "assay_hello>=1"); err != nil || rep.Stdout.Text != "script\n" {
		t.Errorf("its script: %+v, %v", rep, err)
	}

	// Without the packages there is nothing of them.
	rep, err := withPackages(t, r, policy.Cell, pySnippet("import assay_hello"))
	if err != nil || rep.Exception == nil || rep.Exception.Type != "ModuleNotFoundError" || rep.Packages != nil {
		t.Errorf("without packages: %+v, %v", rep, err)
	}
	close1 := func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	close1()

	// The next worker finds it.
	r = newRuntime(t, func(c *Config) { c.Index, c.Environments = environment.Index{URL: "http://127.0.0.1:1/simple"}, kept })
	if rep, err := withPackages(t, r, policy.Task, uses, "assay_hello>=1"); err != nil || rep.Outcome != job.Succeeded {
		t.Errorf("kept from before: %+v, %v", rep, err)
	}
	if x.Asked.Load() != 1 {
		t.Error("built again")
	}

	// Another one beside it leaves the directory alone.
	beside := newRuntime(t, func(c *Config) { c.Index, c.Environments = environment.Index{URL: x.URL}, kept })
	if rep, err := withPackages(t, beside, policy.Cell, uses, "assay_hello>=1"); err != nil || rep.Outcome != job.Succeeded {
		t.Errorf("beside: %+v, %v", rep, err)
	}
	if x.Asked.Load() != 2 {
		t.Error("two runtimes share a directory")
	}
}

// Modules of an environment are compiled, so that an import does not compile them each time, and
// in such a way that the environment is the same wherever it is built.
func TestEnvironmentsHaveByteCode(t *testing.T) {
	t.Parallel()
	x := environmenttest.Serve(t, map[string][]byte{
		"assay_hello-1.0-py3-none-any.whl": environmenttest.WheelOf(t, "assay_hello", "1.0", map[string]string{
			"assay_hello/__init__.py": "from assay_hello import deep\nWHO = 'world'\n",
			"assay_hello/deep.py":     "class C:\n    def f(self, x=(1, 2, 'a'), **more): return lambda: (x, {1, 2}, more)\n",
			"assay_hello/broken.py":   "this is no Python\n",
		}),
	})
	uses := pySnippet(`
import assay_hello, sys
for m in (assay_hello, assay_hello.deep):
    data = open(m.__cached__, "rb").read()
    print(m.__name__, "flags", int.from_bytes(data[4:8], "little"))`)
	trees := map[string]bool{}
	for range 2 {
		kept := t.TempDir()
		r := newRuntime(t, func(c *Config) { c.Index, c.Environments = environment.Index{URL: x.URL}, kept })
		rep, err := withPackages(t, r, policy.Cell, uses, "assay_hello")
		if err != nil {
			t.Fatal(err)
		}
		// 3: by a hash of the source, which is checked.
		if want := "assay_hello flags 3\nassay_hello.deep flags 3\n"; rep.Stdout.Text != want {
			t.Errorf("%s: %q %+v, want %q", rep.Outcome, rep.Stdout.Text, rep.Exception, want)
		}
		locks, err := filepath.Glob(kept + "/*/lock.json")
		if err != nil || len(locks) != 1 {
			t.Fatalf("environments %q, %v", locks, err)
		}
		l, err := readKept(locks[0])
		if err != nil {
			t.Fatal(err)
		}
		trees[l.Tree] = true
	}
	if len(trees) != 1 {
		t.Errorf("the same wheels came to different trees: %v", trees)
	}
}

// TestEnvironmentThatCannotBe checks that a package that cannot be installed ends the job with pip's message,
// and is not tried again at once.
func TestEnvironmentThatCannotBe(t *testing.T) {
	t.Parallel()
	broken := environmenttest.Wheel(t, "assay_hello", "1.0", "")
	x := environmenttest.Serve(t, map[string][]byte{"assay_hello-1.0-py3-none-any.whl": broken, "assay_broken-1.0-py3-none-any.whl": broken[:100]})
	kept := t.TempDir()
	r := newRuntime(t, func(c *Config) { c.Index, c.Environments = environment.Index{URL: x.URL}, kept })
	for packages, want := range map[string]string{
		"assay_nothing":      "No matching distribution found for assay_nothing",
		"assay_hello==2.0":   "No matching distribution found for assay_hello==2.0",
		"assay_broken":       "pip failed",
		"assay_hello\n--pre": "pip failed", // names that a policy cannot contain are harmless, too
	} {
		for range 2 {
			_, err := r.Acquire(t.Context(), runtime.Key{Tenant: "test", Image: testenv.Image, Isolation: policy.Task, Kind: "python", Packages: packages})
			failure := new(runtime.BuildError)
			if packages == "assay_hello\n--pre" && err == nil {
				continue
			}
			if !errors.As(err, &failure) || !strings.Contains(failure.Message, want) {
				t.Errorf("%q: %v, want %q", packages, err, want)
			}
		}
	}
	left, err := os.ReadDir(kept)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range left {
		if !d.IsDir() {
			continue
		}
		if _, err := os.Stat(kept + "/" + d.Name() + "/lock.json"); err != nil {
			t.Errorf("half an environment was left: %v", err)
		}
	}
}
