package tracee

import (
	"errors"
	"os/exec"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
)

// TestCallsInARow checks that no call of a sequence is made after a failed one, and that the error names the
// failed call.
func TestCallsInARow(t *testing.T) {
	testenv.Needs(t, "root")
	goruntime.LockOSThread() // a thread holds the process
	defer goruntime.UnlockOSThread()
	cmd := exec.Command("/bin/sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	held, err := born(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer held.end()
	if err := held.Prepare(func(Mapping) bool { return false }); err != nil {
		t.Fatal(err)
	}
	mask := func(m uintptr) call { return newCall("set the mask", unix.SYS_UMASK, m) }
	masked := func() uintptr {
		old, err := held.ask("read the mask", unix.SYS_UMASK, 0o22)
		if err != nil {
			t.Fatal(err)
		}
		return old
	}
	if err := held.callAll([]call{mask(0o11), mask(0o17)}); err != nil || masked() != 0o17 {
		t.Errorf("calls that succeed: %v", err)
	}
	for place, name := range []string{"first", "second", "third"} {
		calls := []call{mask(0o1), mask(0o2), mask(0o3)}
		calls[place] = newCall("close the "+name, unix.SYS_CLOSE, ^uintptr(0))
		err := held.callAll(calls)
		if !errors.Is(err, unix.EBADF) || !strings.HasPrefix(err.Error(), "close the "+name+":") {
			t.Errorf("the %s fails: %v", name, err)
		}
		if want := []uintptr{0o22, 0o1, 0o2}[place]; masked() != want {
			t.Errorf("after the %s the mask is not %#o", name, want)
		}
	}
}
