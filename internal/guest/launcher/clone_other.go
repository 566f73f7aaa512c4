//go:build linux && (!amd64 || cgo)

package launcher

import "syscall"

// hasChildStack reports that supervisors use a stack of the runtime. In a program linked with C,
// thread-local storage is the C library's, which they would not inherit.
const hasChildStack = false

func holdsChildStack(begin, end uintptr) bool { return false }

// clone forks a process that only supervises.
//
//go:nosplit
//go:norace
func clone(flags uintptr) (n uintptr, errno syscall.Errno) {
	n, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if n == 0 && errno == 0 {
		supervise()
	}
	return n, errno
}
