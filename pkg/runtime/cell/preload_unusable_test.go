package cell

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/runtime/containerd/image/imagetest"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/environment/environmenttest"
)

// TestPreloadUnusable checks that modules with visible or shared state are not preloaded: their programs
// import them by themselves, as before.
func TestPreloadUnusable(t *testing.T) {
	why := map[string]string{}
	files := map[string]string{}
	for name, c := range map[string]struct{ code, why string }{
		"raises":    {"raise ValueError('no')", "ValueError: no"},
		"exits":     {"import os\nif os.getpid() != 2: raise SystemExit(3)", "SystemExit"},
		"dies":      {"import os\nif os.getpid() != 2: os.abort()", "ended while it imported"},
		"prints":    {"print('hello')", "printed something"},
		"complains": {"import sys\nsys.stderr.write('hello')", "printed something"},
		"writes":    {"import os\nos.write(1, b'hello')", "printed something"},
		"threads":   {"import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "threads running"},
		"processes": {"import subprocess\nchild = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL)", "processes running"},
		"sockets":   {"import socket\nkept = socket.socketpair()", "file open"},
		"files":     {"kept = open(__file__)", "file open"},
		"timers":    {"import signal\nsignal.signal(signal.SIGALRM, lambda *args: None)\nsignal.setitimer(signal.ITIMER_REAL, 60, 60)", "timer running"},
		"leaves":    {"open('/tmp/left', 'w').close()", "left files"},
		"makes":     {"import os\nos.makedirs('/tmp/made', exist_ok=True)", "left files"},
		"shares":    {"import mmap\nkept = mmap.mmap(-1, 4096)", "share"},
	} {
		name = "assay_" + name
		files[name], why[name] = slow+c.code, c.why
	}
	i := modules(t, files)
	for name, want := range why {
		i.imports = name
		i.refused(t, "try:\n import "+name+"\nexcept (ValueError, SystemExit): pass\nprint('fine')", "fine\n", want)
	}
	if n, _ := i.r.cells.loaded.levels(); n != 0 {
		t.Errorf("%d interpreters are there", n)
	}
}

// refused runs code until an interpreter with its imports exists, which must be unusable for a reason that
// contains why. Meanwhile the output of code must end with said.
func (i importing) refused(t *testing.T, code, said, why string) {
	t.Helper()
	run := func() string {
		rep, preloaded := i.run(t, code)
		if preloaded {
			t.Errorf("%s is preloaded", i.imports)
		}
		if !strings.HasSuffix(rep.Stdout.Text, said) {
			t.Errorf("%s says %q, want %q: %s %s", i.imports, rep.Stdout.Text, said, rep.Message, rep.Stderr.Text)
		}
		return rep.Stdout.Text
	}
	first := run()
	run()
	got := ""
	for deadline := time.Now().Add(30 * time.Second); got == "" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got = whyNot(i.r.cells.loaded, i.imports)
	}
	if !strings.Contains(got, why) {
		t.Errorf("%s is unusable: %q, want %q", i.imports, got, why)
	}
	if again := run(); again != first {
		t.Errorf("%s says %q, and %q at first", i.imports, again, first)
	}
}

// TestPreloadInADirectoryOfTheImage checks an image with files in a directory that programs write to. If an
// import creates, changes or removes a file there, programs see that as without a preload. An import that
// only reads is no obstacle.
func TestPreloadInADirectoryOfTheImage(t *testing.T) {
	r := newRuntime(t, preloading)
	i := importing{r: r, image: "assay.local/preloads:1"}
	layer := []imagetest.Entry{imagetest.File("workspace/here", 0o644, "in the image\n"), imagetest.File("workspace/.cache/kept", 0o644, "in the image\n")}
	for name, code := range map[string]string{
		"leaves":  "open('/workspace/left', 'w').write('x')",
		"changes": "open('/workspace/here', 'a').write('x')",
		"removes": "import os\nif os.path.exists('/workspace/here'): os.remove('/workspace/here')",
		"makes":   "import os\nos.makedirs('/workspace/made', exist_ok=True)",
		"reads":   "text = open('/workspace/here').read()\nopen('/workspace/.cache/mine', 'w').write('x')\nopen('/workspace/.cache/kept', 'w').write('x')",
	} {
		layer = append(layer, imagetest.File("usr/lib/python3/dist-packages/assay_"+name+".py", 0o644, slow+code))
	}
	imagetest.Derive(t, r.cells.cfg.Engine.Client, testenv.Image, i.image, nil, layer)
	there := "\nimport os\nprint(sorted(n for n in os.listdir('/workspace') if n[0] != '.'), os.path.exists('here') and open('here').read())"
	for name, said := range map[string]string{
		"leaves":  "['here', 'left'] in the image\n\n",
		"changes": "['here'] in the image\nx\n",
		"removes": "[] False\n",
		"makes":   "['here', 'made'] in the image\n\n",
	} {
		i.imports = "assay_" + name
		i.refused(t, "import assay_"+name+there, said, "left files")
	}
	i.imports = "assay_reads"
	i.warm(t)
	if got := i.forked(t, "import assay_reads"+there+"\nprint(assay_reads.text)"); got != "['here'] in the image\n\nin the image\n\n" {
		t.Errorf("an import that reads: %q", got)
	}
}

// TestPreloadBesidesPathFiles checks that the lines of a package's .pth file run in each program, too.
func TestPreloadBesidesPathFiles(t *testing.T) {
	for name, c := range map[string]struct{ line, said, why string }{
		"prints": {"print('hello')", "hello\n[]\n", "printed something"},
		"leaves": {"open('/tmp/left', 'w').close()", "['left']\n", "left files"},
	} {
		x := environmenttest.Serve(t, map[string][]byte{"assay_path-1.0-py3-none-any.whl": environmenttest.WheelOf(t, "assay_path", "1.0", map[string]string{
			"assay_path.pth": "import sys; " + c.line + "\n", "assay_path/__init__.py": slow,
		})})
		r := newRuntime(t, func(cfg *Settings) {
			preloading(cfg)
			cfg.Index, cfg.Environments = environment.Index{URL: x.URL}, t.TempDir()
		})
		i := importing{r: r, packages: []string{"assay_path"}, imports: "assay_path"}
		t.Run(name, func(t *testing.T) { i.refused(t, "import assay_path, os\nprint(os.listdir('/tmp'))", c.said, c.why) })
	}
}

// An import that hangs is given up in time, wherever it does: meanwhile and afterwards its
// programs import by themselves, and nothing of it stays behind.
func TestPreloadHangs(t *testing.T) {
	// Programs are process 2 of their box, and what imports ahead of them is process 100.
	const hang = "import os, signal, time\nif os.getpid() != 2: "
	i := modules(t, map[string]string{
		"assay_sleeps":   hang + "time.sleep(3600)",
		"assay_spins":    hang + "exec('while True: pass')",
		"assay_deaf":     hang + "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(3600)",
		"assay_children": hang + "os.getpid() > 100 and time.sleep(3600)", // where it is imported apart from another
		"assay_forks":    hang + "os.register_at_fork(before=lambda: time.sleep(3600))",
		"assay_forked":   hang + "os.register_at_fork(after_in_child=lambda: time.sleep(3600))",
		"assay_ends":     hang + "os.register_at_fork(after_in_child=lambda: os._exit(0))",
		"assay_other":    slow,
	})
	loaded := i.r.cells.loaded
	loaded.time = 5 * time.Second
	making := func() (is bool) {
		loaded.mu.Lock()
		defer loaded.mu.Unlock()
		return len(loaded.making) > 0
	}
	for imports, why := range map[string]string{
		"assay_sleeps": "take too long", "assay_spins": "take too long", "assay_deaf": "take too long",
		"assay_children assay_other": "take too long", "assay_forks": "wait for the interpreter to fork",
		"assay_forked": "does not start a program", "assay_ends": "does not start a program",
	} {
		i.imports = imports
		code := "import " + strings.ReplaceAll(imports, " ", ", ") + "\nprint('fine')"
		during := 0
		for began := time.Now(); whyNot(loaded, imports) == ""; {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("%s is not given up", imports)
			}
			hangs := making()
			asked := time.Now()
			rep, preloaded := i.run(t, code)
			if took := time.Since(asked); took > 15*time.Second {
				t.Errorf("a program that imports %s took %s", imports, took)
			}
			if preloaded || rep.Stdout.Text != "fine\n" {
				t.Fatalf("while %s hangs: %v %q %s %s", imports, preloaded, rep.Stdout.Text, rep.Message, rep.Stderr.Text)
			}
			if hangs && making() {
				during++
			}
		}
		if got := whyNot(loaded, imports); !strings.Contains(got, why) || during == 0 && imports != "assay_ends" {
			t.Errorf("%s is unusable: %q, want %q; %d programs ran meanwhile", imports, got, why, during)
		}
		if rep, preloaded := i.run(t, code); preloaded || rep.Stdout.Text != "fine\n" {
			t.Errorf("after %s: %v %q %s", imports, preloaded, rep.Stdout.Text, rep.Message)
		}
		eventually(t, "nothing of it is left", func() bool { return len(cellLeftovers(t, i.r)) == 0 })
		if n, bytes := loaded.levels(); n != 0 || bytes != 0 || making() {
			t.Errorf("after %s there are %d interpreters of %d bytes, more on their way: %v", imports, n, bytes, making())
		}
	}
}

// whyNot returns the reason why there is no interpreter with these modules; "" if unknown.
func whyNot(ps *preloads, modules string) string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for key, bad := range ps.bad {
		if key.modules == modules {
			return bad.why.Error()
		}
	}
	return ""
}
