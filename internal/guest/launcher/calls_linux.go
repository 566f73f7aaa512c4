package launcher

import (
	"syscall"
	"unsafe"
)

// What is left to a process after a fork: system calls. Each function that may run
// there is nosplit (a stack that has to grow takes a whole runtime), and stores no
// pointers (the garbage collector's write barrier is a call), hence the addresses.

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

// addr is where something is that stays where it is: a variable of the program, or
// what the caller keeps on the heap.
//
//go:nosplit
//go:norace
func addr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// exit ends a process that has no runtime.
//
//go:nosplit
//go:norace
func exit(status uintptr) {
	for {
		_, _ = sys(syscall.SYS_EXIT_GROUP, status, 0, 0)
	}
}
