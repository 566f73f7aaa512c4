//go:build linux && !amd64

package guest

import "syscall"

// ownStack: supervisors have a stack that is not the runtime's.
const ownStack = false

func heirs(begin, end uintptr) bool { return false }

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
