package hostcheck

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// The tests run with all privileges, so all are found; and all are in the documents.
func TestPrivileges(t *testing.T) {
	testenv.Needs(t, "root")
	doc, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "operate", "privileges.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Privileges(cgroup.DefaultRoot) {
		if p.Lacks != nil && len(p.Levels) > 0 {
			t.Errorf("%s: %v", p.Name, p.Lacks)
		}
		if !strings.Contains(string(doc), "| "+p.Name+" |") && !strings.Contains(string(doc), "| `"+p.Name+"` |") {
			t.Errorf("docs/operate/privileges.md has no row for %s", p.Name)
		}
	}
}

func TestWhatLacksAPrivilegeIsNotOffered(t *testing.T) {
	h := policy.Host{Isolations: []policy.Isolation{policy.Cell, policy.Task, policy.GVisor}}
	Withhold(&h, []Privilege{
		{"CAP_A", every, nil},
		{"CAP_B", []policy.Isolation{policy.GVisor}, errors.New("not there")},
	})
	want := policy.Host{Isolations: []policy.Isolation{policy.Cell, policy.Task}, Missing: []string{"privilege CAP_B: not there"}}
	if d := cmp.Diff(want, h); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestMasksOfProc(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mountinfo")
	for text, hidden := range map[string]string{
		"22 1 0:20 / /proc rw - proc proc rw\n30 22 0:30 / /proc/sys/fs/binfmt_misc rw - binfmt_misc none rw\n": "",
		"22 1 0:20 / /proc rw - proc proc rw\n31 22 0:31 / /proc/kcore rw - tmpfs tmpfs rw\n":                   "/proc/kcore",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unmasked(file); (err == nil) != (hidden == "") || err != nil && !strings.Contains(err.Error(), hidden) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestMemoryOfAContainer checks that a worker offers its jobs the memory of its container, not of its node.
func TestMemoryOfAContainer(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       job.Size
	}{
		{"memory.max", "max\n", 0},
		{"memory.max", "1073741824\n", job.GiB},
		{"memory/memory.limit_in_bytes", "536870912\n", 512 * job.MiB},
		{"cgroup.controllers", "memory\n", 0},
	} {
		root := t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(root, "memory"), 0o755), os.WriteFile(filepath.Join(root, c.file), []byte(c.text), 0o644)); err != nil {
			t.Fatal(err)
		}
		if got := memoryLimit(root); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.file, c.text, got, c.want)
		}
	}
	for limit, want := range map[job.Size]job.Size{0: 4, 3: 3, 5: 4} {
		if got := lesser(4, limit); got != want {
			t.Errorf("4 of %d: %d", limit, got)
		}
	}
}

// Workers look at the same host at once, and in pods with the same pid: none is in the way of another.
func TestProbesAtOnce(t *testing.T) {
	testenv.Needs(t, "root")
	var all errgroup.Group
	for range 64 {
		all.Go(func() error { return groupsWritable(cgroup.DefaultRoot) })
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}
