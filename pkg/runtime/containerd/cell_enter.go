package containerd

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

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// spaces are the namespaces of a box, by their names in /proc/PID/ns, in the order
// in which they are entered: what may be entered follows from the first.
var spaces = []string{"user", "mnt", "net", "ipc", "uts", "pid"}

// forkedSpaces are those of a box for what is forked from a preload that are entered after
// its network, which is not the box's: that, and what owns it, come first.
var forkedSpaces = []string{"user", "mnt", "ipc", "uts", "pid"}

// passedSpaces are what leads to those, in order.
var passedSpaces = append([]string{"network's user", "net"}, forkedSpaces...)

// enter has the process from fork, and takes what it forks into the box of c: its
// namespaces, its limits, its control group. tell tells the process that the box is
// there, and when it has forked it is held until its copy goes on.
//
// To enter a user namespace is to have every capability in it, and the process
// that does runs what a tenant wrote. So it does not run: from its first instruction
// on it is held by the worker, which has it make the calls that it takes, the last
// of which give the capabilities up, and lets it go then. See tracee for why nobody
// else has a say in what it executes meanwhile.
func (c *cellSlot) enter(ctx context.Context, p *policy.Policy, from int, tell func() error) error {
	done := make(chan error, 1)
	go func() {
		goruntime.LockOSThread() // what is held is held by a thread
		defer goruntime.UnlockOSThread()
		err := c.holdAndEnter(ctx, p, from, tell)
		if err != nil {
			endStrays(from)
		}
		done <- err
	}()
	return <-done
}

func (c *cellSlot) holdAndEnter(ctx context.Context, p *policy.Policy, from int, tell func() error) error {
	if err := seize(from); err != nil {
		return fmt.Errorf("hold the interpreter: %w", err)
	}
	defer release(from)
	if err := tell(); err != nil {
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
	if err := c.ready(between); err != nil {
		return err
	}
	fds, err := c.openIn(between.pid)
	if err != nil {
		return err
	}
	sequences := between.sequences()
	t, err := between.through(entering(spaces, fds), tid, 0)
	if err != nil {
		return err
	}
	between.end()
	if err = c.watchCopy(t.pid); err == nil {
		if err = c.Limit(p); err == nil {
			err = c.settle(t, sequences)
		}
	}
	if err != nil {
		t.end()
	}
	return err
}

// entering are the calls that enter namespaces of which a process has descriptors.
func entering(names []string, fds []uintptr) (calls []systemCall) {
	for i, fd := range fds {
		calls = append(calls, newCall("enter the "+names[i]+" namespace", unix.SYS_SETNS, fd, 0))
	}
	return calls
}

// through has t make the calls that take it into a box, and fork there, with more flags.
func (t *tracee) through(calls []systemCall, tid, with uintptr) (*tracee, error) {
	// Only a fork takes a process into a pid namespace. The two share their memory,
	// which saves a copy of all page tables, and which the one in between never uses
	// again; nor may the kernel for it.
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
	return inside, nil
}

// settle puts a copy that is held into its control group, takes its capabilities away
// and lets it go.
func (c *cellSlot) settle(t *tracee, s sequences) error {
	if err := c.lease.Add(t.pid); err != nil {
		return err
	}
	if err := t.run(t.regs.dropping(t.code, unix.CAP_LAST_CAP), t.code+dropEnd); err != nil {
		return fmt.Errorf("empty the bounding set: %w", err)
	}
	calls := []systemCall{
		newCall("make a cgroup namespace", unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP),
		newCall("drop capabilities", unix.SYS_CAPSET, t.code+capHeader, t.code+capNone),
	}
	if s.area != 0 { // who borrows memory has none, and what is forked without asking the C library, either
		calls = append(calls, newCall("tell of restartable sequences", unix.SYS_RSEQ, uintptr(s.area), uintptr(s.size), 0, uintptr(s.signature)))
	}
	if err := t.callAll(calls); err != nil {
		return err
	}
	if err := harmless(t.pid); err != nil {
		return err
	}
	return t.letGo()
}

// ready makes sure that nobody can reach the memory of a process that is about to
// get capabilities, and that it will share nothing with what it was forked from.
func (c *cellSlot) ready(t *tracee) error {
	info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", t.pid))
	if err != nil {
		return err
	}
	// The files of a process that is not dumpable belong to root, of the cell or, if
	// that has none, of the host. It was so from its birth on, because it has not
	// executed anything yet.
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != 0 && uid != c.cell.uid {
		return errors.New("the interpreter has not hidden its memory")
	}
	return c.prepare(t)
}

// prepare makes t ready for calls, if it shares nothing with what it was forked from.
func (c *cellSlot) prepare(t *tracee) error {
	mapped, err := mappings(t.pid)
	if err != nil {
		return err
	}
	code := uintptr(0)
	for _, m := range mapped {
		switch {
		case m.shared && !c.ofImage(m):
			return fmt.Errorf("%w: the session has memory that it would share with its copy, %s: close or unmap it first", job.ErrConflict, whichMapping(m))
		case m.name == "[vdso]" && m.executable:
			code = m.begin
		}
	}
	if code == 0 {
		return errors.New("the interpreter has no vdso")
	}
	return t.prepare(code)
}

// ofImage reports whether m is a file of the image, which nobody can write to.
func (c *cellSlot) ofImage(m mapping) bool {
	if m.writable || !strings.HasPrefix(m.name, "/usr/") && !strings.HasPrefix(m.name, "/lib") || strings.HasSuffix(m.name, " (deleted)") {
		return false
	}
	for _, dir := range c.Layout.Paths() {
		if m.name == dir || strings.HasPrefix(m.name, dir+"/") {
			return false
		}
	}
	return true
}

func whichMapping(m mapping) string {
	if m.name == "" || strings.HasPrefix(m.name, "/dev/zero") {
		return "without a name"
	}
	return strconv.Quote(m.name)
}

// openIn finds the descriptors of a process that are open on the namespaces of the
// box of c. It was sent them, and whatever else they were, it could not go there.
func (c *cellSlot) openIn(pid int) ([]uintptr, error) {
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
	for _, name := range spaces {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.sup.PID, name))
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

// harmless makes sure that a process has no capability, cannot get one, and has its
// filter.
func harmless(pid int) error {
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
