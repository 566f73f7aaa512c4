package containerd

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// What a job left behind, and the kernel cannot give up yet, does not stand in
// the way of the next job's limit.
func TestGroupWithLeftovers(t *testing.T) {
	groups := newRuntime(t, nil).cells.groups
	used, err := groups.lend(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("leftover", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	held := os.NewFile(uintptr(fd), "leftover")
	defer held.Close()
	cmd := exec.Command("sh", "-c", "read go; head -c 64M /dev/zero >&3")
	cmd.ExtraFiles = []*os.File{held}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := used.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "exit status 1") { // of read
		t.Fatal(err)
	}
	if r, ok := used.Group.(cgroup.Reusable); ok {
		if n, err := r.Charged(); err != nil || n < int64(64*job.MiB) {
			t.Fatalf("%d bytes are charged, %v", n, err)
		}
	}
	used.giveBack(t.Context())

	next, err := groups.lend(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer next.drop(t.Context())
	if err := next.Limit(cgroup.Limits{Memory: int64(16 * job.MiB), CPU: 1, Processes: 8}); err != nil {
		t.Error(err)
	}
	if r, ok := next.Group.(cgroup.Reusable); ok {
		if n, err := r.Pinned(); err != nil || n > leftover {
			t.Errorf("%d bytes of the job before are charged, %v", n, err)
		}
	}
}

// The groups of a peak of jobs are given up when it is long over, those that are
// wanted are kept.
func TestGroupsNobodyWantsAreGivenUp(t *testing.T) {
	groups := newRuntime(t, func(c *Config) { c.WarmIdle = 400 * time.Millisecond }).cells.groups
	var peak []*leased
	for range 5 {
		l, err := groups.lend(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		peak = append(peak, l)
	}
	for _, l := range peak {
		l.giveBack(t.Context())
	}
	if _, ok := peak[0].Group.(cgroup.Reusable); !ok { // cgroup v2: none is used again, so none is kept
		if n := groups.outstanding(); n != 0 {
			t.Errorf("%d are on loan", n)
		}
		for _, l := range peak {
			if _, err := l.Pids(); err == nil {
				t.Errorf("%s is there still", l.Path())
			}
		}
		return
	}
	kept := func() int {
		groups.mu.Lock()
		defer groups.mu.Unlock()
		return len(groups.free[0])
	}
	if n := kept(); n != 5 {
		t.Fatalf("%d are kept", n)
	}
	last := peak[4]
	eventually(t, "the end of all but the one in use", func() bool {
		l, err := groups.lend(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if l.Path() != last.Path() {
			t.Fatalf("%s was lent, and %s was given back after it", l.Path(), last.Path())
		}
		l.giveBack(t.Context())
		return kept() == 1 && groups.outstanding() == 0 // which they are until they are removed
	})
	for _, l := range peak[:4] {
		if pids, err := l.Pids(); err == nil {
			t.Errorf("%s is there still, with %d processes", l.Path(), len(pids))
		}
	}
}
