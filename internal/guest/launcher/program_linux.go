package launcher

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// program is the program that a child becomes. It has addresses instead of pointers: see sys.
type program struct {
	report uintptr // descriptor for failures: the message failed, a Stage and the errno
	failed byte
	files  [guest.MaxFiles]int32 // the first count are its descriptors in order; report is above all of them
	count  int
	mixed  bool // files may overlap their targets, and other descriptors may still be inherited
	limits [3]limit

	another  bool // it has another user without capabilities; otherwise capabilities are dropped
	uid, gid uintptr

	dir    uintptr // a string; all strings end with a NUL
	filter struct {
		Len uint16
		At  uintptr
	} // struct sock_fprog; Len 0: none
	paths     uintptr // this many addresses of strings, tried in turn
	tries     int
	argv, env uintptr // addresses of strings, 0 after the last

	answer [8]byte
	former unix.Rlimit // for setLimit
}

// limit is an argument of setrlimit. A soft limit of 0 is left unchanged.
type limit struct {
	what uintptr
	unix.Rlimit
	soft bool // keep the hard limit
}

// stackLimit returns the argument for the stack.
//
//go:nosplit
func stackLimit(l guest.StackLimit) limit {
	return limit{unix.RLIMIT_STACK, unix.Rlimit{Cur: l.Bytes(), Max: l.Bytes()}, !l.Hard()}
}

var noCapabilities struct {
	head unix.CapUserHeader
	data [2]unix.CapUserData
}

func init() { noCapabilities.head.Version = unix.LINUX_CAPABILITY_VERSION_3 }

// become turns this process into the program. It never returns; it reports failures.
//
//go:nosplit
//go:norace
func (p *program) become() {
	_, _ = sys(syscall.SYS_SETSID, 0, 0, 0)
	p.takeFiles()
	for i := range p.limits {
		p.setLimit(&p.limits[i])
	}
	p.takeIdentity()
	_, errno := sys(syscall.SYS_CHDIR, p.dir, 0, 0) // as the program's own user
	p.check(guest.StageDir, errno)
	if p.filter.Len > 0 {
		_, errno = sys(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, addr(&p.filter))
		p.check(guest.StageFilter, errno)
	}
	p.check(guest.StageExec, p.execute())
}

// setLimit sets one limit of this process.
//
//go:nosplit
//go:norace
func (p *program) setLimit(l *limit) {
	if l.Cur == 0 {
		return
	}
	if l.soft {
		_, errno := sys5(syscall.SYS_PRLIMIT64, 0, l.what, 0, addr(&p.former), 0)
		p.check(guest.StageFiles, errno)
		l.Max = p.former.Max
	}
	_, errno := sys5(syscall.SYS_PRLIMIT64, 0, l.what, addr(&l.Rlimit), 0, 0)
	p.check(guest.StageFiles, errno)
}

// takeFiles moves the program's descriptors into place.
//
//go:nosplit
//go:norace
func (p *program) takeFiles() {
	for i := 0; i < p.count && p.mixed; i++ { // first move them away from their targets
		n, errno := sys(syscall.SYS_FCNTL, uintptr(p.files[i]), unix.F_DUPFD_CLOEXEC, 2*guest.MaxFiles)
		p.check(guest.StageFiles, errno)
		p.files[i] = int32(n)
	}
	for i := 0; i < p.count; i++ {
		_, errno := sys(syscall.SYS_DUP3, uintptr(p.files[i]), uintptr(i), 0)
		p.check(guest.StageFiles, errno)
	}
	if p.mixed {
		_, errno := sys(unix.SYS_CLOSE_RANGE, uintptr(p.count), ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
		p.check(guest.StageFiles, errno)
	}
}

// takeIdentity changes to the program's user and drops all capabilities.
//
//go:nosplit
//go:norace
func (p *program) takeIdentity() {
	for i := uintptr(0); ; i++ { // up to the last capability that this kernel has
		_, errno := sys5(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, i, 0, 0, 0)
		if errno == syscall.EINVAL {
			break
		}
		p.check(guest.StageIdentity, errno)
	}
	if !p.another {
		_, errno := sys(syscall.SYS_CAPSET, addr(&noCapabilities.head), addr(&noCapabilities.data), 0)
		p.check(guest.StageIdentity, errno)
		return
	}
	_, errno := sys(syscall.SYS_SETGROUPS, 0, 0, 0)
	p.check(guest.StageIdentity, errno)
	_, errno = sys(syscall.SYS_SETRESGID, p.gid, p.gid, p.gid)
	p.check(guest.StageIdentity, errno)
	_, errno = sys(syscall.SYS_SETRESUID, p.uid, p.uid, p.uid)
	p.check(guest.StageIdentity, errno)
}

// busyTries is how often execute tries a file that another process has open for writing. A compiler that has just ended
// may have left such a process: a sandbox forked while the file was written has its descriptor until it executes a program.
const busyTries = 40

// busyPause is the pause between these tries.
var busyPause = syscall.Timespec{Nsec: 5_000_000}

// execute tries the paths like execvp and returns the error. It tries a file that is open for writing for 200 ms.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (p *program) execute() syscall.Errno {
	last := syscall.ENOENT
	for i := 0; i < p.tries; i++ {
		path := *(*uintptr)(unsafe.Add(nil, p.paths+uintptr(i)*unsafe.Sizeof(p.paths)))
		_, errno := sys(syscall.SYS_EXECVE, path, p.argv, p.env)
		for n := 0; errno == syscall.ETXTBSY && n < busyTries; n++ {
			_, _ = sys(syscall.SYS_NANOSLEEP, addr(&busyPause), 0, 0)
			_, errno = sys(syscall.SYS_EXECVE, path, p.argv, p.env)
		}
		if errno != syscall.ENOENT && errno != syscall.ENOTDIR && errno != syscall.EACCES {
			return errno
		}
		if last != syscall.EACCES {
			last = errno
		}
	}
	return last
}

// check ends the process and reports the failure if a call of this stage failed.
//
//go:nosplit
//go:norace
func (p *program) check(stage guest.Stage, errno syscall.Errno) {
	if errno == 0 {
		return
	}
	p.answer = [8]byte{p.failed, byte(stage), byte(errno), byte(errno >> 8), byte(errno >> 16), byte(errno >> 24)}
	_, _ = sys(syscall.SYS_WRITE, p.report, addr(&p.answer[0]), 6)
	exit(127)
}
