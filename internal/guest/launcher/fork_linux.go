package launcher

import (
	"errors"
	"runtime"
	"syscall"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// The three functions below stop the world around a fork for package syscall. The runtime keeps
// them linkable with this signature for gVisor (go.dev/issue/67401).

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// forkChild forks. In the child it returns 0 and no error, and there is no Go runtime: see the
// package comment. The child must not return to a caller with deferred calls.
//
//go:norace
func forkChild() (pid uintptr, errno syscall.Errno) {
	syscall.ForkLock.Lock()
	beforeFork()
	pid, errno = sys5(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0)
	if pid == 0 && errno == 0 {
		afterForkInChild()
		return 0, 0
	}
	afterFork()
	syscall.ForkLock.Unlock()
	return pid, errno
}

// child is a Start in the kernel's format, prepared before the fork.
type child struct {
	program
	argv, envv, paths []*byte // the objects whose addresses program holds
	dir               *byte
	filter            []byte
}

// prepare checks s and converts it. files[0] is the gate.
func prepare(s *guest.Start, files []int) (*child, error) {
	if len(s.Argv) == 0 || len(files) < 1 || len(files) > guest.MaxFiles {
		return nil, errors.New("start: needs argv and a gate")
	}
	c := &child{filter: s.Filter}
	var err error
	if c.argv, err = syscall.SlicePtrFromStrings(s.Argv); err != nil {
		return nil, errors.New("start: argv contains a NUL byte")
	}
	if c.envv, err = syscall.SlicePtrFromStrings(s.Env); err != nil {
		return nil, errors.New("start: env contains a NUL byte")
	}
	if c.dir, err = unix.BytePtrFromString(s.Dir); err != nil {
		return nil, errors.New("start: dir contains a NUL byte")
	}
	if c.paths, err = syscall.SlicePtrFromStrings(guest.SearchPath(s.Argv[0], s.Env)); err != nil {
		return nil, err
	}
	p := &c.program
	p.report, p.failed = uintptr(files[0]), guest.GateFailed
	for i, fd := range files[1:] {
		p.files[i] = int32(fd)
	}
	p.count = len(files) - 1 // above all of their targets: see receiver
	p.limits[0] = limit{what: unix.RLIMIT_NOFILE, Rlimit: unix.Rlimit{Cur: s.OpenFiles, Max: s.OpenFiles}}
	p.limits[1] = limit{what: unix.RLIMIT_NPROC, Rlimit: unix.Rlimit{Cur: s.Processes, Max: s.Processes}}
	p.limits[2] = stackLimit(s.Stack)
	p.another, p.uid, p.gid = true, uintptr(s.UID), uintptr(s.GID)
	p.dir, p.argv, p.env = addr(c.dir), addr(&c.argv[0]), addr(&c.envv[0])
	p.paths, p.tries = addr(&c.paths[0]), len(c.paths)-1
	if n := len(s.Filter) / 8; n > 0 {
		p.filter.Len, p.filter.At = uint16(n), addr(&s.Filter[0])
	}
	return c, nil
}

// fork starts the child, which waits at the gate.
//
//go:noinline
//go:norace
func (c *child) fork() (pid int, err error) {
	n, errno := forkChild()
	if n == 0 && errno == 0 {
		c.passGate()
		c.become()
	}
	runtime.KeepAlive(c)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// passGate returns when the worker lets the process continue.
//
//go:nosplit
//go:norace
func (p *program) passGate() {
	p.answer[0] = guest.GateReady
	if n, errno := sys(syscall.SYS_WRITE, p.report, addr(&p.answer[0]), 1); errno != 0 || n != 1 {
		exit(127)
	}
	for {
		n, errno := sys(syscall.SYS_READ, p.report, addr(&p.answer[0]), 1)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 || n != 1 || p.answer[0] != guest.GateGo {
			exit(127)
		}
		return
	}
}
