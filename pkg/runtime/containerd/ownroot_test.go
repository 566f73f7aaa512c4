package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/containerd/api/services/tasks/v1"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// theirs returns the default image with foreign files over it, like the packages of an environment (own) or
// the layers of a tenant's image.
func theirs(t *testing.T, r *Runtime, files map[string]string, own bool, env ...string) *image.Image {
	t.Helper()
	base, err := r.images.Get(t.Context(), testenv.Image)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("theirs-%d", theirsMade.Add(1))
	layer := filepath.Join(t.TempDir(), "layer")
	for name, text := range files {
		file := filepath.Join(layer, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	img, err := r.images.Stack(base, image.Addition{Name: name, Digest: name, Layer: layer})
	if err != nil {
		t.Fatal(err)
	}
	img.Name, img.Env = "test/theirs", append(base.Env[:len(base.Env):len(base.Env)], env...)
	if !own {
		img.Own = nil
	}
	return img
}

var theirsMade atomic.Int64

// runTheirs runs a program in img. At task it waits until a slot was made ahead of demand.
func runTheirs(t *testing.T, r *Runtime, isolation policy.Isolation, img *image.Image, p job.Program) (s runtime.Slot, rep *runtime.Report) {
	t.Helper()
	var err error
	if isolation == policy.Cell {
		s, err = r.cells.Fresh(t.Context(), img, runtime.Key{Tenant: "test", Kind: p.Kind()})
	} else {
		key := taskSlotKey{isolation, img.Digest, p.Kind() != "command" && !r.levels[isolation].foreign}
		var first *slot
		if first, err = r.pool.Get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		first.Close()
		eventually(t, "a slot is ready", func() bool { return r.pool.Ready(key) > 0 })
		s, err = r.pool.Get(t.Context(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	rep, err = s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: p, Plan: runtimetest.Plan(t, r.Host(), isolation, nil)})
	if err != nil {
		t.Fatal(err)
	}
	return s, rep
}

// look is Python that notes which walls its process is behind when it runs.
const look = `
import posix, sys
sys.seen = getattr(sys, "seen", [])
for line in posix.read(posix.open("/proc/self/status", 0), 8192).split(b"\n"):
    if line.startswith((b"CapEff", b"Seccomp:")):
        sys.seen.append(line.split()[1])
`

// seen prints it.
var seen = pySnippet("import sys, json, ctypes\nprint(b' '.join(getattr(sys, 'seen', [])).decode())")

// confined reports whether all that was seen is no capability and the filter.
func confined(out string) bool {
	for i, f := range strings.Fields(out) {
		if f != []string{"0000000000000000", "2"}[i%2] {
			return false
		}
	}
	return true
}

const distPackages = "usr/local/lib/python3.11/dist-packages/"

// Nothing of a package or of a tenant's image runs before the walls stand: with a
// capability, without the filter, or in the process that others are forked from.
// Each of these worked on 5ee7338, at cell with three capabilities and the worker's
// socket, at task without a filter.
func TestTheirCodeRunsBehindTheWalls(t *testing.T) {
	r := newRuntime(t, func(c *Config) { withGVisor(t)(c); c.Warm = 1 })
	pth := "import sys; exec(open('/" + distPackages + "look.py').read())\n"
	shadow := func(file string) map[string]string {
		real, err := os.ReadFile(filepath.Join(baseRoot(t, r), file))
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{file: string(real) + look}
	}
	for name, files := range map[string]map[string]string{
		"a .pth file":             {distPackages + "theirs.pth": pth, distPackages + "look.py": look},
		"a .pth file of the user": {".local/lib/python3.11/site-packages/theirs.pth": pth, distPackages + "look.py": look},
		"sitecustomize":           {distPackages + "sitecustomize.py": look},
		"usercustomize":           {distPackages + "usercustomize.py": look},
		"json of their own":       shadow("usr/lib/python3.11/json/__init__.py"),
		"encodings of their own":  shadow("usr/lib/python3.11/encodings/utf_8.py"),
		"ctypes of their own":     shadow("usr/lib/python3.11/ctypes/__init__.py"),
		"site of their own":       shadow("usr/lib/python3.11/sitecustomize.py"),
	} {
		for kind, own := range map[string]bool{"packages": true, "image": false} {
			for _, isolation := range everyIsolation {
				t.Run(fmt.Sprintf("%s/%s/%s", isolation, kind, name), func(t *testing.T) {
					_, rep := runTheirs(t, r, isolation, theirs(t, r, files, own), seen)
					if !confined(rep.Stdout.Text) || rep.Outcome != job.Succeeded {
						t.Errorf("it ran with capabilities and filter %s%s", rep.Stdout.Text, rep.Stderr.Text)
					}
					if runs := name == "a .pth file" || name == "usercustomize"; runs && rep.Stdout.Text == "\n" {
						t.Error("it does not run in the program either")
					}
				})
			}
		}
	}
}

func baseRoot(t *testing.T, r *Runtime) string {
	t.Helper()
	base, err := r.images.Get(t.Context(), testenv.Image)
	if err != nil {
		t.Fatal(err)
	}
	return base.Rootfs
}

// TestTheirPythonHasNoSocket checks that a foreign python3 is not the original of forks, and finds no socket.
func TestTheirPythonHasNoSocket(t *testing.T) {
	r := newRuntime(t, nil)
	spy := "#!/bin/sh\n{ grep CapEff /proc/self/status; ls /run/assay/slot; } >/run/assay/slot/spied 2>&1\n" +
		"[ -e /run/assay/slot/socket ] && SPY=socket; export SPY; exec /usr/bin/python3 \"$@\"\n"
	for name, files := range map[string]map[string]string{
		"in /usr/local/bin": {"usr/local/bin/python3": spy},
		"in /usr/sbin":      {"usr/sbin/python3": spy},
	} {
		for kind, own := range map[string]bool{"packages": true, "image": false} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				_, rep := runTheirs(t, r, policy.Cell, theirs(t, r, files, own), pySnippet("import os\nprint(os.environ.get('SPY'))"))
				if rep.Stdout.Text != "None\n" {
					t.Errorf("stdout %q, stderr %q", rep.Stdout.Text, rep.Stderr.Text)
				}
				cells, err := filepath.Glob(filepath.Join(r.dir, "cells", "*", "slot"))
				if err != nil || len(cells) == 0 {
					t.Fatalf("no cell has a directory: %v", err)
				}
				for _, dir := range cells { // this slot's, and those that are about to end
					if text, err := os.ReadFile(filepath.Join(dir, "spied")); err == nil {
						t.Errorf("their python3 ran beside the socket: %s", text)
					}
				}
			})
		}
	}
}

// The variables of a tenant's image are for its programs, not for the launcher or an
// interpreter that others are forked from.
func TestTheirVariablesStartNothing(t *testing.T) {
	r := newRuntime(t, nil)
	hook := map[string]string{"opt/hook/sitecustomize.py": look, "opt/hook/hook.py": look}
	for _, env := range []string{"PYTHONPATH=/opt/hook", "ASSAY_PRELOAD=hook", "PYTHONUSERBASE=/opt", "PYTHONHOME=/opt/hook", "PYTHONSTARTUP=/opt/hook/hook.py", "LD_PRELOAD=/opt/hook/x.so", "LD_LIBRARY_PATH=/opt/hook"} {
		t.Run(env, func(t *testing.T) {
			img := theirs(t, r, hook, false, env)
			if env == "ASSAY_PRELOAD=hook" {
				img.Env = append(img.Env, "PYTHONPATH=/opt/hook")
			}
			_, rep := runTheirs(t, r, policy.Cell, img, seen)
			if !confined(rep.Stdout.Text) {
				t.Errorf("it ran with capabilities and filter %s", rep.Stdout.Text)
			}
			looked := 0
			for _, pid := range launchers(t, r) {
				launcher, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
				if err != nil || len(launcher) == 0 { // of a cell that is on its way out
					continue
				}
				looked++
				if strings.Contains(string(launcher), "/opt") {
					t.Errorf("the launcher's environment: %q", launcher)
				}
			}
			if looked == 0 {
				t.Error("no launcher's environment can be read")
			}
		})
	}
}

// launchers are the processes 1 of the cells of r.
func launchers(t *testing.T, r *Runtime) (pids []int) {
	t.Helper()
	running, err := r.client.TaskService().List(t.Context(), &tasks.ListTasksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := r.engine.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range running.Tasks {
		if slices.Contains(ids, p.ID) {
			pids = append(pids, int(p.Pid))
		}
	}
	return pids
}

// TestPackagesAreWhereTheyWouldBe checks that a forked interpreter finds packages in the same places and
// order as one that starts in their root.
func TestPackagesAreWhereTheyWouldBe(t *testing.T) {
	r := newRuntime(t, nil)
	img := theirs(t, r, map[string]string{
		distPackages + "theirs.pth":          "/opt/more\nimport sys; sys.path.insert(1, '/opt/first')\n",
		distPackages + "numpy.py":            "",
		distPackages + "a/__init__.py":       "",
		"opt/more/b.py":                      "",
		"opt/first/c.py":                     "",
		"usr/lib/python3/dist-packages/d.py": "",
	}, true)
	tell := `import site, sys; print(sys.path[1:], sys.prefix, list(sys.flags), quit, site.ENABLE_USER_SITE, sorted(vars(__builtins__)))
import numpy, a, b, c, d; print(numpy, a, b, c, d)`
	_, rep := runTheirs(t, r, policy.Cell, img, pySnippet("import subprocess\ntell = "+strconv.Quote(tell)+`
subprocess.run(["python3", "-c", tell])
print("")
exec(tell)`))
	afresh, forked, _ := strings.Cut(rep.Stdout.Text, "\n\n")
	if afresh+"\n" != forked || rep.Outcome != job.Succeeded || !strings.Contains(forked, "'/opt/first', ") {
		t.Errorf("afresh\n%s\nforked\n%s%s", afresh, forked, rep.Stderr.Text)
	}
}
