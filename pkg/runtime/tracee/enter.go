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

// Spaces are the namespaces of a sandbox, by their names in /proc/PID/ns, in the order
// in which they are entered: what may be entered follows from the first.
var Spaces = []string{"user", "mnt", "net", "ipc", "uts", "pid"}

// ForkedSpaces are those of a sandbox for what is forked from a Frozen that are entered after
// its network, which is not the sandbox's: that, and what owns it, come first.
var ForkedSpaces = []string{"user", "mnt", "ipc", "uts", "pid"}

// passedSpaces are what leads to those, in order.
var passedSpaces = append([]string{"network's user", "net"}, ForkedSpaces...)

// Copy takes what a running process forks into a sandbox.
//
// To enter a user namespace is to have every capability in it, and the process
// that does runs what a tenant wrote. So it does not run: from its first instruction
// on it is held, and makes the calls that it takes, the last of which give the
// capabilities up, and is let go then.
type Copy struct {
	// Tell has the process fork once.
	Tell func() error
	// Ready is called with what it forked, and prepares it (Prepare) or objects to it.
	Ready func(*Process) error
	// Box is a process in the sandbox. Descriptors of its Spaces are open in what is forked:
	// the process was sent them, and whatever else it were, it could not go there.
	Box int
	// Take is called with what is in the sandbox then, and lets it go (Settle).
	Take func(*Process) error
}

// Of takes what from forks. It holds from until then, which else goes on running.
func (c *Copy) Of(ctx context.Context, from int) error {
	done := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // what is held is held by a thread
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

// entering are the calls that enter namespaces of which a process has descriptors.
func entering(names []string, fds []uintptr) (calls []call) {
	for i, fd := range fds {
		calls = append(calls, newCall("enter the "+names[i]+" namespace", unix.SYS_SETNS, fd, 0))
	}
	return calls
}

// through has t make the calls that take it into a sandbox, and fork there, with more flags.
func (t *Process) through(calls []call, tid, with uintptr) (*Process, error) {
	// Only a fork takes a process into a pid namespace. The two share their memory,
	// which saves a copy of all page tables, and which the one in between never uses
	// again; nor may the kernel for it.
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

// Settle takes the capabilities of a process away that has entered its sandbox, makes sure
// of it, and lets the process go. It is in its control group by then.
func (t *Process) Settle() error {
	if err := t.run(t.regs.dropping(t.code, unix.CAP_LAST_CAP), t.code+dropEnd); err != nil {
		return fmt.Errorf("empty the bounding set: %w", err)
	}
	calls := []call{
		newCall("make a cgroup namespace", unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP),
		newCall("drop capabilities", unix.SYS_CAPSET, t.code+capHeader, t.code+capNone),
	}
	if s := t.rseq; s.area != 0 { // who borrows memory has none, and what is forked without asking the C library, either
		calls = append(calls, newCall("tell of restartable sequences", unix.SYS_RSEQ, uintptr(s.area), uintptr(s.size), 0, uintptr(s.signature)))
	}
	if err := t.callAll(calls); err != nil {
		return err
	}
	if err := confined(t.pid); err != nil {
		return err
	}
	return t.letGo()
}

// openIn finds the descriptors of a process that are open on the namespaces of another.
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
			return nil, fmt.Errorf("the interpreter has not kept the %s namespace of its copy", name)
		}
		out = append(out, fd)
	}
	return out, nil
}

// confined makes sure that a process has no capability, cannot get one, and has its
// filter.
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
