//go:build linux && (!amd64 || cgo)

package launcher

import "syscall"

// hasChildStack: supervisors have a stack that is not the runtime's. In a program that
// is linked with C, thread-local storage is the C library's, in memory that they
// would not inherit.
const hasChildStack = false

func holdsChildStack(begin, end uintptr) bool { return false }

// clone forks a process that does nothing but supervise.
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
