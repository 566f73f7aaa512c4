package containerd

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/hostcheck"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// TestSlotsAreClosedToTheHostsUsers checks that users of the host cannot read a job's directories. They could
// on 5ee7338, because the names on the path are known and the directories were passable.
func TestSlotsAreClosedToTheHostsUsers(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 0 })
	s, err := r.Acquire(t.Context(), taskKey)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wait := runtime.Attempt{
		Job: job.NewID(), Lease: 1, Plan: runtimetest.Plan(t, r.Host(), policy.Task, nil), Files: []runtime.File{{Path: "/workspace/in", Data: []byte("secret")}},
		Program: shell("echo secret >/workspace/out; echo secret >/tmp/out; echo secret >/dev/shm/out"),
	}
	if rep, err := s.Run(t.Context(), wait); err != nil || rep.Outcome != job.Succeeded {
		t.Fatalf("%+v, %v", rep, err)
	}
	for _, file := range []string{"w0/in", "w0/out", "w1/out", "w2/out", "meminfo"} {
		path := filepath.Join(s.(*slot).Scratch.Dir, file)
		cat := exec.Command("cat", path)
		cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
		if out, err := cat.CombinedOutput(); err == nil || !strings.Contains(string(out), "Permission denied") {
			t.Errorf("%s: %q, %v", file, out, err)
		}
	}
}

// TestNamesDoNotCount checks that programs cannot find the number of sandboxes that this host has had. On
// 5ee7338 it was in the names of control groups and of overlays, and in the ids.
func TestNamesDoNotCount(t *testing.T) {
	t.Parallel()
	r := &Runtime{ids: hostcheck.AllIDs(hostcheck.BaseID, hostcheck.MostRanges)}
	seen, steps := map[int]bool{}, map[int]bool{}
	tokens := map[string]bool{}
	for last := 0; len(seen) < hostcheck.MostRanges; {
		token, name, uid := r.another()
		if !strings.HasSuffix(name, token) || tokens[token] || seen[uid] || uid < hostcheck.BaseID || (uid-hostcheck.BaseID)%sandbox.IDs != 0 {
			t.Fatalf("%s, %s, %d", token, name, uid)
		}
		steps[uid-last] = true
		seen[uid], tokens[token], last = true, true, uid
	}
	if len(steps) < 1000 {
		t.Errorf("the ids of %d sandboxes are %d steps apart", hostcheck.MostRanges, len(steps))
	}
	if _, _, uid := r.another(); !seen[uid] {
		t.Errorf("the ids go on: %d", uid)
	}
}
