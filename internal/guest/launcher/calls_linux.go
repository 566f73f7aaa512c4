package launcher

import (
	"syscall"
	"unsafe"
)

// After a fork a process can only make system calls. Each function that may run there is nosplit,
// because stack growth requires a runtime. It stores no pointers, because the garbage collector's
// write barrier is a call. So these functions use addresses.

// sys makes a system call of up to three arguments.
//
//go:nosplit
//go:norace
func sys(nr, a, b, c uintptr) (uintptr, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(nr, a, b, c)
	return n, errno
}

// sys5 makes a system call of up to five arguments.
//
//go:nosplit
//go:norace
func sys5(nr, a, b, c, d, e uintptr) (uintptr, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(nr, a, b, c, d, e, 0)
	return n, errno
}

// addr returns the address of an object that does not move: a variable of the program, or a heap
// object that the caller keeps.
//
//go:nosplit
//go:norace
func addr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// exit ends a process without a runtime.
//
//go:nosplit
//go:norace
func exit(status uintptr) {
	for {
		_, _ = sys(syscall.SYS_EXIT_GROUP, status, 0, 0)
	}
}
