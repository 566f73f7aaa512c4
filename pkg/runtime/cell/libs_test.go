//go:build libs

package cell

import (
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/environment/environmenttest"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

var libsWheels = flag.String("libs.wheels", "", "directory of the wheels of the libraries: see make test-libs")

// typical are typical programs, which print ok.
var typical = map[string]string{
	"numpy": `
import numpy as np
a = np.arange(12.0).reshape(3, 4)
print("ok" if np.allclose(np.linalg.svd(a)[1][0], 22.409) or (a @ a.T).shape == (3, 3) else "wrong")`,
	"pandas": `
import pandas as pd
d = pd.DataFrame({"a": [1, 2, 3], "b": list("xyx")})
print("ok" if d.groupby("b")["a"].sum().to_dict() == {"x": 4, "y": 2} else "wrong")`,
	"scipy": `
from scipy import optimize, stats
import scipy.linalg
print("ok" if abs(optimize.brentq(lambda x: x * x - 2, 0, 2) ** 2 - 2) < 1e-6 and stats.norm.cdf(0) == .5 else "wrong")`,
	"sympy": `
import sympy
x = sympy.Symbol("x")
print("ok" if sympy.integrate(sympy.sin(x), (x, 0, sympy.pi)) == 2 else "wrong")`,
	"scikit-learn": `
from sklearn.linear_model import LogisticRegression
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
print("ok" if LogisticRegression(max_iter=2000).fit(X, y).score(X, y) > .9 else "wrong")`,
	"matplotlib": `
import matplotlib.pyplot as plt
import numpy as np
t = np.linspace(0, 1, 50)
plt.plot(t, np.sin(t), label="sine")
plt.title("a figure")
plt.legend()
plt.savefig("figure.png")
print("ok")`,
}

// TestLibraries checks that libraries work whether programs import them or are forked with them. Warnings are
// errors, and nothing else is printed.
func TestLibraries(t *testing.T) {
	wheels := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(*libsWheels, "*.whl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no wheels in %q (-libs.wheels): %v", *libsWheels, err)
	}
	for _, f := range files {
		if wheels[filepath.Base(f)], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	x := environmenttest.Serve(t, wheels)
	r := newRuntime(t, func(c *Settings) { preloading(c); c.Index, c.Environments = environment.Index{URL: x.URL}, t.TempDir() })
	for name, code := range typical {
		t.Run(name, func(t *testing.T) {
			made := runtimetest.Plan(t, policy.Host{Isolations: []policy.Isolation{policy.Cell}}, policy.Cell, func(p *policy.Policy) {
				p.Packages, p.Memory, p.Wall, p.CPUTime = []string{name}, job.GiB, job.Duration(60e9), job.Duration(60e9)
				if name == "matplotlib" {
					p.Packages = append(p.Packages, "numpy")
					p.Artifacts.Paths = []string{"/workspace/*.png"}
				}
			})
			tried := 0
			run := func() bool {
				s, err := r.Acquire(t.Context(), runtime.Key{
					Tenant: "test", Image: testenv.Image, Isolation: policy.Cell, Kind: "python", Packages: made.Policy.Requirements(),
					Imports: strings.Join(runtime.Imports(code), " "), CPU: made.Policy.CPU,
				})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				kept := map[string]int64{}
				program := "import warnings; warnings.simplefilter('error')\n" + code
				rep, err := s.Run(t.Context(), runtime.Attempt{
					Job: job.NewID(), Lease: 1, Program: pySnippet(program), Plan: made,
					Collect: func(_ context.Context, path string, size int64, _ io.Reader) error {
						kept[path] = size
						return nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				preloaded := s.(*slot).preload != nil
				if rep.Outcome != job.Succeeded || rep.Stdout.Text != "ok\n" || rep.Stderr.Text != "" {
					t.Fatalf("preloaded %v: %s %s\n%s\n%s", preloaded, rep.Outcome, rep.Message, rep.Stdout.Text, rep.Stderr.Text)
				}
				if name == "matplotlib" && (kept["/workspace/figure.png"] < 1000 || kept["/workspace/figure-1.png"] < 1000) {
					t.Fatalf("figures: %v", kept)
				}
				if tried++; tried == 1 || preloaded {
					t.Logf("preloaded %v: %.1f ms of CPU", preloaded, rep.Usage.CPUMS)
				}
				return preloaded
			}
			run() // which builds its environment
			defer func() {
				for key, bad := range r.cells.loaded.bad {
					t.Log(key.modules, "is not preloaded:", bad.why)
				}
			}()
			eventually(t, "a program is forked with it", run)
		})
	}
	n, bytes := r.cells.loaded.levels()
	t.Log(n, "interpreters,", bytes>>20, "MiB")
}
