package containerd

import (
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/policy"
)

// Programs that take turns share their cores, and others spread, where there are several.
func TestPin(t *testing.T) {
	several := runtime.NumCPU() > 1
	cores := func(together uint64) (set unix.CPUSet) {
		t.Helper()
		cmd := exec.Command("cat") // until its input ends
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = in.Close(), cmd.Wait() }()
		if err := pin(cmd.Process.Pid, &program{limits: &policy.Policy{CPU: 1}, together: together}); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedGetaffinity(cmd.Process.Pid, &set); err != nil {
			t.Fatal(err)
		}
		if set.Count() != 1 {
			t.Errorf("%d cores, want 1", set.Count())
		}
		return set
	}
	a, b := cores(0), cores(0)
	if several && a == b {
		t.Error("two programs by themselves share a core")
	}
	if x, y := cores(7), cores(7); x != y {
		t.Error("two that take turns do not share their core")
	}
	if x, y := cores(7), cores(8); several && x == y {
		t.Error("two pairs share a core")
	}
}
