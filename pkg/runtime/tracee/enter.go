package tracee

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spaces are the namespaces of a sandbox by their names in /proc/PID/ns, in the order of entry,
// because the first determines the rights to enter the others.
var Spaces = []string{"user", "mnt", "net", "ipc", "uts", "pid"}

// ForkedSpaces are the namespaces of a sandbox for forks of a Frozen. They are entered after its
// network and the network's owner, which are separate.
var ForkedSpaces = []string{"user", "mnt", "ipc", "uts", "pid"}

// passedSpaces are the namespaces before them, in order.
var passedSpaces = append([]string{"network's user", "net"}, ForkedSpaces...)

// Copy moves the fork of a running process into a sandbox.
//
// A process that enters a user namespace gets all capabilities in it, and this process contains a
// tenant's code. So it does not run: it is held from its first instruction, makes the required
// calls, of which the last drop the capabilities, and is resumed then.
type Copy struct {
	// Tell makes the process fork once.
	Tell func() error
	// Ready is called with the fork, and prepares it (Prepare) or rejects it.
	Ready func(*Process) error
	// Box is a process in the sandbox. The fork has descriptors of its Spaces, which the original
	// process received. It could not enter any others.
	Box int
	// Take is called with the process in the sandbox, and resumes it (Settle).
	Take func(*Process) error
}

// Of moves the next fork of the process from. It holds from until then; otherwise from continues to
// run.
func (c *Copy) Of(ctx context.Context, from int) error {
	done := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // a thread is the holder
		defer goruntime.UnlockOSThread()
		err := c.hold(ctx, from)
		if err != nil {
			endStrays(from)
		}
		done <- err
	}()
	return <-done
}

func (c *Copy) hold(ctx context.Context, from int) error {
	if err := seize(from); err != nil {
		return fmt.Errorf("hold the interpreter: %w", err)
	}
	defer release(from)
	if err := c.Tell(); err != nil {
		return err
	}
	pid, err := awaitFork(ctx, from)
	if err != nil {
		return fmt.Errorf("wait for the interpreter to fork: %w", err)
	}
	between, err := born(pid)
	if err != nil {
		return err
	}
	defer between.end()
	var how registers
	if err := how.read(from); err != nil {
		return err
	}
	tid, ok := how.forking()
	if !ok {
		return errors.New("the interpreter does not fork as it should")
	}
	if err := c.Ready(between); err != nil {
		return err
	}
	fds, err := openIn(between.pid, c.Box)
	if err != nil {
		return err
	}
	t, err := between.through(entering(Spaces, fds), tid, 0)
	if err != nil {
		return err
	}
	between.end()
	if err = c.Take(t); err != nil {
		t.end()
	}
	return err
}

// entering returns the calls that enter namespaces by their descriptors.
func entering(names []string, fds []uintptr) (calls []call) {
	for i, fd := range fds {
		calls = append(calls, newCall("enter the "+names[i]+" namespace", unix.SYS_SETNS, fd, 0))
	}
	return calls
}

// through makes t execute the calls that move it into a sandbox, and fork there with additional
// flags.
func (t *Process) through(calls []call, tid, with uintptr) (*Process, error) {
	// Only a fork enters a pid namespace. The two processes share their memory, which saves a copy of
	// all page tables. The intermediate process never uses it again, and the kernel must not use it
	// on its behalf.
	sequences := t.sequences()
	if err := t.callAll(append(calls, newCall("forget its number", unix.SYS_SET_TID_ADDRESS, 0))); err != nil {
		return nil, err
	}
	flags := uintptr(unix.CLONE_VM) | uintptr(syscall.SIGCHLD) | with
	if tid != 0 {
		flags |= unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID
	}
	inside, err := t.fork(flags, tid)
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	inside.rseq = sequences
	return inside, nil
}

// Settle drops the capabilities of a process in its sandbox, verifies that, and resumes the
// process. It must already be in its control group.
func (t *Process) Settle() error {
	if err := t.run(t.regs.dropping(t.code, unix.CAP_LAST_CAP), t.code+dropEnd); err != nil {
		return fmt.Errorf("empty the bounding set: %w", err)
	}
	calls := []call{
		newCall("make a cgroup namespace", unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP),
		newCall("drop capabilities", unix.SYS_CAPSET, t.code+capHeader, t.code+capNone),
	}
	// a process with borrowed memory has none, and neither has a fork outside of the C library
	if s := t.rseq; s.area != 0 {
		calls = append(calls, newCall("register restartable sequences", unix.SYS_RSEQ, uintptr(s.area), uintptr(s.size), 0, uintptr(s.signature)))
	}
	if err := t.callAll(calls); err != nil {
		return err
	}
	if err := confined(t.pid); err != nil {
		return err
	}
	return t.letGo()
}

// ErrNoNamespace means that a process has no descriptor of a namespace of its copy. It closed it, or had no room for it.
var ErrNoNamespace = errors.New("the interpreter closed a namespace of its copy, or policy.open_files leaves no room for it")

// openIn returns the descriptors of a process that refer to another process's namespaces.
func openIn(pid, box int) ([]uintptr, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	open := map[string]uintptr{}
	for _, e := range entries {
		link, err := os.Readlink(filepath.Join(dir, e.Name()))
		n, nerr := strconv.Atoi(e.Name())
		if err == nil && nerr == nil {
			open[link] = uintptr(n)
		}
	}
	var out []uintptr
	for _, name := range Spaces {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", box, name))
		if err != nil {
			return nil, err
		}
		fd, ok := open[link]
		if !ok {
			return nil, fmt.Errorf("%w: %s", ErrNoNamespace, name)
		}
		out = append(out, fd)
	}
	return out, nil
}

// confined checks that a process has no capability, cannot get one, and has its filter.
func confined(pid int) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2"}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		want[set] = "0000000000000000"
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if w, ok := want[name]; ok && strings.TrimSpace(value) == w {
			delete(want, name)
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("the copy is not confined: %v", want)
	}
	return nil
}
