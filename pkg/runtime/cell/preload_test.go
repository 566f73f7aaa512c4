package cell

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/environment/environmenttest"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// importing is a job of a program that imports modules.
type importing struct {
	r        *Runtime
	image    string // default testenv.Image
	packages []string
	imports  string
	edit     func(*policy.Policy)
	files    []runtime.File
	tenant   string // default test
}

func (i importing) run(t testing.TB, code string) (rep *runtime.Report, preloaded bool) {
	t.Helper()
	made := runtimetest.Plan(t, policy.Host{Isolations: []policy.Isolation{policy.Cell}}, policy.Cell, func(p *policy.Policy) {
		p.Packages = i.packages
		if i.edit != nil {
			i.edit(p)
		}
	})
	s, err := i.r.Acquire(t.Context(), runtime.Key{
		Tenant: cmp.Or(i.tenant, "test"), Image: cmp.Or(i.image, testenv.Image), Isolation: policy.Cell, Kind: "python", Packages: made.Policy.Requirements(),
		Imports: i.imports, CPU: made.Policy.CPU,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := runtime.Attempt{Job: job.NewID(), Lease: 1, Program: pySnippet(code), Plan: made, Files: i.files}
	c := s.(*slot)
	preloaded = c.preload != nil && c.preload.suits(&a)
	if rep, err = s.Run(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return rep, preloaded
}

// warm runs programs until one is forked from an interpreter that has their imports.
func (i importing) warm(t testing.TB) {
	t.Helper()
	code := "import " + strings.ReplaceAll(i.imports, " ", ", ")
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		rep, preloaded := i.run(t, code)
		if rep.Outcome != job.Succeeded {
			t.Fatalf("%s: %s\n%s", rep.Outcome, rep.Message, rep.Stderr.Text)
		}
		if preloaded {
			return
		}
	}
	t.Fatalf("no interpreter has %s: %v", i.imports, i.r.cells.loaded.bad)
}

// forked runs code in a process that was forked from an interpreter with its imports.
func (i importing) forked(t testing.TB, code string) string {
	t.Helper()
	rep, preloaded := i.run(t, code)
	if !preloaded {
		t.Error("it ran by itself")
	}
	if rep.Outcome != job.Succeeded {
		t.Errorf("%s: %s\n%s", rep.Outcome, rep.Message, rep.Stderr.Text)
	}
	return rep.Stdout.Text
}

func preloading(c *Settings) { c.PreloadMemory = job.GiB }

// modules is a runtime that has a package with these top-level modules.
func modules(t *testing.T, files map[string]string) importing {
	t.Helper()
	all := map[string]string{"assay_modules/__init__.py": ""}
	for name, code := range files {
		all[name+"/__init__.py"] = code
	}
	x := environmenttest.Serve(t, map[string][]byte{"assay_modules-1.0-py3-none-any.whl": environmenttest.WheelOf(t, "assay_modules", "1.0", all)})
	r := newRuntime(t, func(c *Settings) {
		preloading(c)
		c.Index, c.Environments = environment.Index{URL: x.URL}, t.TempDir()
	})
	return importing{r: r, packages: []string{"assay_modules"}}
}

// slow is an import that is worth preloading.
const slow = "import time\nend = time.process_time() + .02\nwhile time.process_time() < end: pass\n"

// TestPreloadIsLearnt checks that an interpreter is made after programs have missed it, and that it serves
// programs that import all its modules. Modules with quick imports need none.
func TestPreloadIsLearnt(t *testing.T) {
	r := newRuntime(t, preloading)
	i := importing{r: r, imports: "asyncio"}
	if _, preloaded := i.run(t, "import asyncio"); preloaded {
		t.Error("the first program found one")
	}
	if n, _ := r.cells.loaded.levels(); n != 0 {
		t.Error("one program is enough")
	}
	i.warm(t)
	usage := func(rep *runtime.Report, _ bool) float64 { return rep.Usage.CPUMS }
	if bare, forked := usage(importing{r: r}.run(t, "import asyncio")), usage(i.run(t, "import asyncio")); forked > bare/2 {
		t.Errorf("the import takes %.1f ms, %.1f without", forked, bare)
	}
	i.imports = "asyncio colorsys"
	if _, preloaded := i.run(t, "import asyncio, colorsys"); !preloaded {
		t.Error("a program that imports more is not forked from it")
	}
	for _, other := range []importing{{r: r}, {r: r, imports: "colorsys"}, {r: r, imports: "asyncio", tenant: "another"}, {r: r, imports: "asyncio", edit: func(p *policy.Policy) { p.CPU = 2 }}} {
		if _, preloaded := other.run(t, "pass"); preloaded {
			t.Errorf("it serves %+v", other)
		}
	}
	i.imports = "colorsys"
	for range 10 {
		i.run(t, "import colorsys")
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		r.cells.loaded.mu.Lock()
		known := false
		for m := range r.cells.loaded.known {
			known = known || strings.HasSuffix(m, " colorsys")
		}
		r.cells.loaded.mu.Unlock()
		if known {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody has found out what colorsys costs")
		}
	}
	if _, preloaded := i.run(t, "import colorsys"); preloaded {
		t.Error("colorsys is preloaded")
	}
}

// TestPreloadInPackages checks that a module in a package counts like any other, for each way to import it,
// and that imported names other than modules do not count.
func TestPreloadInPackages(t *testing.T) {
	i := modules(t, map[string]string{"assay_outer": "", "assay_outer/inner": slow + "def f(): return 1\n", "assay_alone": slow})
	i.imports = "assay_outer assay_outer:inner"
	code := "import sys\nprint('assay_outer' in sys.modules)\nfrom assay_outer import inner\nprint(inner.f(), 'assay_alone' in sys.modules)"
	ready := func() bool {
		rep, preloaded := i.run(t, code)
		if rep.Stdout.Text != "False\n1 False\n" {
			t.Fatalf("said %q %s", rep.Stdout.Text, rep.Stderr.Text)
		}
		return preloaded
	}
	eventually(t, "the module is preloaded", ready)
	i.imports = "assay_outer.inner assay_outer.inner:f"
	for n := range 5 {
		i.imports += fmt.Sprint(" assay_outer.inner:f", n)
		if got := i.forked(t, "from assay_outer.inner import f\nprint(f())"); got != "1\n" {
			t.Errorf("named in another way: %q", got)
		}
	}
	i.imports = "assay_outer"
	if _, preloaded := i.run(t, "import assay_outer"); preloaded {
		t.Error("a program is forked with what it does not import")
	}
	// Modules imported by another module are not present with the first.
	i.imports = "assay_alone assay_outer.inner"
	eventually(t, "both are preloaded", func() bool {
		i.run(t, "import assay_alone, assay_outer.inner")
		n, _ := i.r.cells.loaded.levels()
		return n == 2
	})
	if got := i.forked(t, code); got != "False\n1 False\n" {
		t.Errorf("beside another: %q", got)
	}
	if got := i.forked(t, "import assay_alone, sys\nprint('assay_outer' in sys.modules)"); got != "False\n" {
		t.Errorf("the other one: %q", got)
	}
}

// TestPreloadIsNotSeen checks that a program sees no preloaded module until it imports something.
func TestPreloadIsNotSeen(t *testing.T) {
	r := newRuntime(t, preloading)
	i := importing{r: r, imports: "asyncio numpy"}
	i.warm(t)
	look := `
import sys, os, threading, warnings, signal, resource, time, gc
print(sorted(sys.modules), list(sys.modules)[:20])
print(sys.meta_path, sys.path_hooks, sys.path, sys.argv, sys.flags, sys.getrecursionlimit(), sys.gettrace(), sys.excepthook)
print(sorted(os.listdir("/proc/self/fd")), threading.active_count(), threading.main_thread().ident == threading.get_ident(), len(os.listdir("/proc/self/task")))
print([(n, signal.getsignal(n)) for n in range(1, 65) if n not in (32, 33)], signal.pthread_sigmask(0, []))
print(os.getcwd(), dict(os.environ), os.getpid(), os.getppid(), os.getsid(0), os.getuid(), os.getgid(), os.getgroups(), os.umask(0o22))
print([resource.getrlimit(n) for n in range(16)], os.cpu_count(), os.sched_getaffinity(0).__len__(), os.listdir("."), os.listdir("/tmp"))
print(gc.isenabled(), gc.get_threshold(), gc.callbacks, sys.stdout, sys.stdin, __builtins__, sorted(globals()))
depth = 0
f = sys._getframe()
while f: depth += 1; f = f.f_back
print(depth > 0)
status = [l for l in open("/proc/self/status") if l.startswith(("Cap", "NoNew", "Seccomp:", "Threads", "Uid", "NSpid", "TracerPid", "SigQ", "SigCgt", "SigIgn", "SigBlk"))]
print(status)
print([(l.split()[4], l.split()[5]) for l in open("/proc/self/mountinfo")])
print(sorted(os.listdir("/proc/self/ns")), open("/proc/self/uid_map").read().split()[0::2], open("/proc/self/setgroups").read(), os.uname())
import email.message, subprocess
print(sorted(sys.modules))
`
	plain, _ := importing{r: r}.run(t, look)
	if got := i.forked(t, look); got != plain.Stdout.Text || got == "" {
		a, b := strings.Split(plain.Stdout.Text, "\n"), strings.Split(got, "\n")
		for n := range a {
			if n >= len(b) || a[n] != b[n] {
				t.Errorf("line %d:\n%s\nwithout:\n%s", n, strings.Join(b[min(n, len(b)):min(n+1, len(b))], ""), a[n])
			}
		}
		t.Error(plain.Stderr.Text)
	}
	said := i.forked(t, `
import sys
before = [n for n in sys.modules if n.partition(".")[0] in ("numpy", "asyncio")]
import asyncio.events as events
middle = [n for n in sys.modules if n.partition(".")[0] == "numpy"]
import numpy.linalg
import numpy as np
print(before, middle, sys.modules["numpy"] is np, np.linalg.norm([3, 4]), events is sys.modules["asyncio"].events)
import importlib, pickle
print(importlib.import_module("numpy") is np, pickle.loads(pickle.dumps(np.arange(3))).sum())
try: import numpy.no_such_thing
except ImportError as e: print(type(e).__name__, e, e.__traceback__.tb_next)
try: import no_such_thing
except ImportError as e: print(type(e).__name__, e, e.__traceback__.tb_next)
`)
	if want := "[] [] True 5.0 True\nTrue 3\nModuleNotFoundError No module named 'numpy.no_such_thing' None\nModuleNotFoundError No module named 'no_such_thing' None\n"; said != want {
		t.Errorf("imports: %s\nwant: %s", said, want)
	}
}

// TestPreloadedRandomness has no two programs draw the same number, from any generator. A generator that a package gave
// a seed gives the same numbers to all programs.
func TestPreloadedRandomness(t *testing.T) {
	i := modules(t, map[string]string{
		"assay_random": slow + "import random\nfree, fixed = random.Random(), random.Random(42)\n",
		"assay_numpy":  slow + "import numpy.random\nfree, fixed = numpy.random.default_rng(), numpy.random.default_rng(42)\n",
	})
	i.imports = "assay_random assay_numpy multiprocessing"
	i.warm(t)
	seen := map[string]int{}
	const programs = 5
	for range programs {
		for n, drawn := range strings.Fields(i.forked(t, `
import assay_random, assay_numpy, numpy, random, os, uuid, secrets, tempfile, ssl, hashlib, multiprocessing
print(random.random(), numpy.random.random(), numpy.random.default_rng().random(), os.urandom(8).hex(), uuid.uuid4(), secrets.token_hex(8),
    tempfile.mktemp(), ssl.RAND_bytes(8).hex(), assay_random.free.random(), assay_numpy.free.random(), bytes(multiprocessing.current_process().authkey).hex(), "fixed", assay_random.fixed.random(), assay_numpy.fixed.random())
`)) {
			seen[fmt.Sprint(n, " ", drawn)]++
		}
	}
	for drawn, times := range seen {
		n, _, _ := strings.Cut(drawn, " ")
		if fixed := len(n) > 1 && n != "10"; fixed != (times == programs) || !fixed && times > 1 {
			t.Errorf("%d programs drew %s", times, drawn)
		}
	}
	if len(seen) != 11*programs+3 {
		t.Errorf("%d numbers", len(seen))
	}
}

// A module of the program's own goes before one of the same name that is preloaded.
func TestPreloadedNamesMeanWhatTheyDo(t *testing.T) {
	r := newRuntime(t, preloading)
	i := importing{r: r, imports: "asyncio"}
	i.warm(t)
	for name, code := range map[string]string{
		"a file that it writes":  "open('asyncio.py', 'w').write('x = 1')\nimport asyncio\nprint(asyncio.x)",
		"a path of its own":      "import sys, os\nos.mkdir('lib')\nopen('lib/asyncio.py', 'w').write('x = 1')\nsys.path.insert(0, 'lib')\nimport asyncio\nprint(asyncio.x)",
		"a module that it makes": "import sys, types\nsys.modules['asyncio'] = types.SimpleNamespace(x=1)\nimport asyncio\nprint(asyncio.x)",
		"a finder": `
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "asyncio": raise ImportError("1")
sys.meta_path.insert(0, Finder())
try: import asyncio
except ImportError as e: print(e)`,
		"none any more": "import sys\nimport asyncio as a\na.x = 2\nfor n in [n for n in sys.modules if n.startswith('asyncio')]: del sys.modules[n]\nimport asyncio as b\nprint(a is not b and 1)",
	} {
		if got := i.forked(t, code); got != "1\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	i.files = []runtime.File{{Path: "/workspace/asyncio.py", Data: []byte("x = 1")}}
	if rep, preloaded := i.run(t, "import asyncio\nprint(asyncio.x)"); preloaded || rep.Stdout.Text != "1\n" {
		t.Errorf("with an input of that name: %q, %v", rep.Stdout.Text, preloaded)
	}
	i.files = []runtime.File{{Path: "/workspace/data.csv", Data: []byte("x")}}
	if got := i.forked(t, "import asyncio\nprint(open('data.csv').read())"); got != "x\n" {
		t.Errorf("with another input: %q", got)
	}
}
