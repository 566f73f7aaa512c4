package lease

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// TestGroupWithLeftovers checks that memory that the kernel has not yet freed after a job does not prevent
// the next job's limit.
func TestGroupWithLeftovers(t *testing.T) {
	h, err := cgroup.Detect(cgroup.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	groups := New(h, "/assay-lease-test")
	defer func() {
		if err := h.Open("/assay-lease-test").Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	used, err := groups.Get(t.Context(), 0)
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
	used.Put(t.Context())

	next, err := groups.Get(t.Context(), 0)
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
