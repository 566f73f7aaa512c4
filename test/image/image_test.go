//go:build image

package image

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

var levels = []policy.Isolation{policy.Cell, policy.Task, policy.GVisor}

func python(code string) job.Program { return job.Program{Python: &job.Python{Code: code}} }

// A dispatcher's image runs as an unprivileged user, on a read-only root file system. A worker's
// image needs nothing of its host, keeps its built environments over a restart, recovers from a
// dead containerd, and leaves no other data.
func TestImages(t *testing.T) {
	f := newFleet(t)
	f.load("worker")
	volume, index := t.TempDir(), newIndex(t)
	if err := os.Chmod(filepath.Dir(volume), 0o711); err != nil {
		t.Fatal(err)
	}
	groups := groupsOfWorkers(t)
	start := func(id string) *container {
		c := f.start("worker", id, "--privileged", "--mount", "type=bind,src="+volume+",dst=/var/lib/assay,options=rbind:rw",
			"--mount", "type=cgroup,src=cgroup,dst=/sys/fs/cgroup,options=rw:nosuid:noexec:nodev", // the container's own groups
			"--env", "ASSAY_NATS_URL="+f.nats, "--env", "ASSAY_WORKER_ID="+id, "--env", "ASSAY_METRICS_LISTEN=127.0.0.1:0",
			"--env", "ASSAY_OBJECTS_URL=file:///var/lib/assay/objects", "--env", "ASSAY_PIP_INDEX="+index.URL+"/simple", "--env", "ASSAY_GRACE=5s")
		f.until(id+" offers every isolation", func() bool {
			if !alive(c.pid) {
				t.Fatalf("%s ended", id)
			}
			return slices.Equal(f.offers(id), levels)
		})
		return c
	}
	first := start(unique("image-1"))
	for _, level := range levels {
		if got := f.run(python("print(6 * 7)"), level); got != "42\n" {
			t.Errorf("%s printed %q", level, got)
		}
	}
	if got := f.run(python("import friendly\nprint(friendly.word)"), policy.Cell, "friendly==1.0"); got != "hello\n" {
		t.Errorf("with a package: %q", got)
	}
	healed(f, first)
	f.until("what lost its parent is reaped", func() bool {
		for _, state := range below(first.pid) {
			if strings.HasSuffix(state, " Z") {
				return false
			}
		}
		return true
	})
	first.stop()
	index.Close() // the built environment remains

	second := start(unique("image-2"))
	for _, level := range levels {
		if got := f.run(python("import friendly\nprint(friendly.word)"), level, "friendly==1.0"); got != "hello\n" {
			t.Errorf("%s, with the package from before: %q", level, got)
		}
	}
	second.stop()

	names := []string{}
	entries, err := os.ReadDir(volume)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if d := cmp.Diff([]string{"containerd", "environments", "objects"}, names); d != "" {
		t.Errorf("the volume (-want +got):\n%s", d)
	}
	if table, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(table), volume) {
		t.Errorf("mounts are left on this host (%v)", err)
	}
	if d := cmp.Diff(groups, groupsOfWorkers(t)); d != "" {
		t.Errorf("control groups of this host (-before +after):\n%s", d)
	}
}

// By itself, `assay dev` offers only images for jobs. The fleet's own images, which `make images`
// built beside them, are not such images, and their base is not an image at all.
func TestDevTakesNoneOfThem(t *testing.T) {
	root := testenv.RepoRoot(t)
	found, err := filepath.Glob(filepath.Join(root, ".cache", "images", "*.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{filepath.Join(root, ".cache", "images", "python.tar")}, found); d != "" {
		t.Errorf("archives that are imported by default (-want +got):\n%s", d)
	}
}

// healed kills the worker's containerd and checks that jobs run again.
func healed(f *fleet, c *container) {
	f.t.Helper()
	for pid, state := range below(c.pid) {
		if strings.HasPrefix(state, "containerd ") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				f.t.Fatal(err)
			}
			f.until("containerd is gone", func() bool { return !alive(pid) })
			if got := f.run(python("print('again')"), policy.Task); got != "again\n" {
				f.t.Errorf("after containerd was killed: %q", got)
			}
			return
		}
	}
	f.t.Errorf("the container has no containerd: %v", below(c.pid))
}

// load loads an image into the engine.
func (f *fleet) load(name string) {
	f.t.Helper()
	archive := filepath.Join(testenv.RepoRoot(f.t), ".cache", "fleet", name+".tar")
	if _, err := os.Stat(archive); err != nil {
		f.t.Fatalf("%v; run: make images", err)
	}
	f.ctr("images", "import", archive)
}

// offers returns the isolations that a worker reports.
func (f *fleet) offers(id string) []policy.Isolation {
	ws, err := f.api.Workers(f.t.Context())
	if err != nil {
		return nil
	}
	for _, w := range ws {
		var host policy.Host
		if w.ID == id && json.Unmarshal(w.Host, &host) == nil {
			return host.Isolations
		}
	}
	return nil
}

// groupsOfWorkers lists the control groups of workers on this host.
func groupsOfWorkers(t *testing.T) (found []string) {
	t.Helper()
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(path), "image-") {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// newIndex serves one package, as a package index.
func newIndex(t *testing.T) *httptest.Server {
	t.Helper()
	dir := t.TempDir()
	testenv.PackageIndex(t, dir)
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	return s
}
