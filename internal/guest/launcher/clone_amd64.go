//go:build !cgo

package launcher

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hasChildStack reports that supervisors have a stack outside the runtime.
const hasChildStack = true

// childStack is the stack of supervisors. The launcher never touches it, so it costs each
// supervisor only a page or two.
var childStack = func() []byte {
	b, err := unix.Mmap(-1, 0, childStackSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	return b
}()

const (
	childStackSize = 64 << 10
	tlsSize        = 256 // at the top; all zero: no goroutine
)

// holdsChildStack reports whether this mapping contains childStack.
func holdsChildStack(begin, end uintptr) bool {
	at := addr(&childStack[0])
	return begin <= at && at < end
}

// clone forks a process that only supervises.
//
//go:nosplit
//go:norace
func clone(flags uintptr) (n uintptr, errno syscall.Errno) {
	top := addr(unsafe.SliceData(childStack)) + childStackSize - tlsSize
	n = cloneOn(flags|unix.CLONE_SETTLS, top, top+tlsSize/2)
	if n > ^uintptr(4095) {
		return 0, syscall.Errno(-n)
	}
	return n, 0
}

var _ = supervise // cloneOn calls it

//go:noescape
func cloneOn(flags, stack, tls uintptr) (n uintptr)
