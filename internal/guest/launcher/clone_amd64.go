//go:build !cgo

package launcher

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownStack: supervisors have a stack that is not the runtime's.
const ownStack = true

// footing is what a supervisor stands on. The launcher never touches it, so it
// costs each supervisor a page or two of its own.
var footing = func() []byte {
	b, err := unix.Mmap(-1, 0, footingSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	return b
}()

const (
	footingSize = 64 << 10
	tlsSize     = 256 // at the top; all zero: no goroutine
)

// heirs reports whether supervisors need what is mapped there.
func heirs(begin, end uintptr) bool {
	at := uintptr(unsafe.Pointer(&footing[0]))
	return begin <= at && at < end
}

// clone forks a process that does nothing but supervise.
//
//go:nosplit
//go:norace
func clone(flags uintptr) (n uintptr, errno syscall.Errno) {
	top := uintptr(unsafe.Pointer(unsafe.SliceData(footing))) + footingSize - tlsSize
	n = cloneOn(flags|unix.CLONE_SETTLS, top, top+tlsSize/2)
	if n > ^uintptr(4095) {
		return 0, syscall.Errno(-n)
	}
	return n, 0
}

var _ = supervise // which cloneOn calls

//go:noescape
func cloneOn(flags, stack, tls uintptr) (n uintptr)
