package launcher

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// Why not os/exec: the child has to stop between fork and execve, while the
// worker puts it into its control group, and then has to change directory as
// somebody else and to empty its bounding set. The usual way out, executing
// ourselves once more, starts a Go runtime per program, which costs more than
// everything else here.
//
// The three functions below stop the world around fork for package syscall. The
// runtime keeps them linkable, with this signature, for gVisor (go.dev/issue/67401).

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// child is a Start in the form that the kernel wants, made before the fork:
// after it, the child may neither allocate nor call anything but the kernel.
type child struct {
	gate       int
	files      []int // descriptor i of the program; all above len(files), close-on-exec
	paths      []*byte
	argv, envv []*byte
	dir        *byte
	uid, gid   uintptr
	filter     *unix.SockFprog
	limits     [2]struct { // that are the child's to set
		what uintptr
		unix.Rlimit
	}
}

// prepare checks s and translates it. files[0] is the gate.
func prepare(s *guest.Start, files []int) (*child, error) {
	if len(s.Argv) == 0 || len(files) < 1 {
		return nil, errors.New("start: needs argv and a gate")
	}
	c := &child{gate: files[0], files: files[1:], uid: uintptr(s.UID), gid: uintptr(s.GID)}
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
	if n := len(s.Filter) / 8; n > 0 {
		c.filter = &unix.SockFprog{Len: uint16(n), Filter: (*unix.SockFilter)(unsafe.Pointer(&s.Filter[0]))}
	}
	c.limits[0].what, c.limits[0].Rlimit = unix.RLIMIT_NOFILE, unix.Rlimit{Cur: s.OpenFiles, Max: s.OpenFiles}
	c.limits[1].what, c.limits[1].Rlimit = unix.RLIMIT_NPROC, unix.Rlimit{Cur: s.Processes, Max: s.Processes}
	return c, nil
}

// fork starts the child, which waits at the gate. It is one function because a
// call in the child might have to grow the stack, which takes a whole runtime.
//
//go:noinline
//go:norace
//go:nocheckptr
func (c *child) fork() (pid int, err error) {
	var (
		message = [6]byte{guest.GateHere}
		stage   = guest.StageFiles
		errno   syscall.Errno
		denied  syscall.Errno
		n       uintptr
		i       int
	)
	syscall.ForkLock.Lock()
	beforeFork()
	n, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || n != 0 {
		afterFork()
		syscall.ForkLock.Unlock()
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
	afterForkInChild()

	n, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.gate), uintptr(unsafe.Pointer(&message[0])), 1)
	if errno != 0 || n != 1 {
		goto exit
	}
	for {
		n, _, errno = syscall.RawSyscall(syscall.SYS_READ, uintptr(c.gate), uintptr(unsafe.Pointer(&message[0])), 1)
		if errno != syscall.EINTR {
			break
		}
	}
	if errno != 0 || n != 1 || message[0] != guest.GateGo {
		goto exit
	}

	_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	for i = range c.files {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(c.files[i]), uintptr(i), 0); errno != 0 {
			goto fail
		}
	}

	for i = range c.limits {
		if c.limits[i].Cur == 0 {
			continue
		}
		_, _, errno = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, c.limits[i].what, uintptr(unsafe.Pointer(&c.limits[i].Rlimit)), 0, 0, 0)
		if errno != 0 {
			goto fail
		}
	}

	stage = guest.StageIdentity
	for i = 0; ; i++ { // to the last capability that this kernel knows
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(i), 0, 0, 0, 0); errno != 0 {
			break
		}
	}
	if errno != syscall.EINVAL {
		goto fail
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		goto fail
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETRESGID, c.gid, c.gid, c.gid); errno != 0 {
		goto fail
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, c.uid, c.uid, c.uid); errno != 0 {
		goto fail
	}

	stage = guest.StageDir // as the program's own user
	if _, _, errno = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); errno != 0 {
		goto fail
	}

	stage = guest.StageFilter
	if c.filter != nil {
		_, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(c.filter)))
		if errno != 0 {
			goto fail
		}
	}

	stage = guest.StageExec
	errno = syscall.ENOENT
	for i = range c.paths {
		if c.paths[i] == nil {
			break
		}
		_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(c.paths[i])),
			uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.envv[0])))
		if errno == syscall.EACCES {
			denied = errno
		}
		if errno != syscall.ENOENT && errno != syscall.ENOTDIR && errno != syscall.EACCES {
			goto fail
		}
	}
	if denied != 0 {
		errno = denied
	}

fail:
	message = [6]byte{guest.GateFailed, byte(stage), byte(errno), byte(errno >> 8), byte(errno >> 16), byte(errno >> 24)}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.gate), uintptr(unsafe.Pointer(&message[0])), uintptr(len(message)))
exit:
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 127, 0, 0)
	}
}
