package tracee

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sequences is struct ptrace_rseq_configuration.
type sequences struct {
	area      uint64
	size      uint32
	signature uint32
	flags     uint32
	_         uint32
}

// sequences returns t's registration of restartable sequences with the kernel. A kernel without
// this request has none that matter.
func (t *Process) sequences() (s sequences) {
	_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GET_RSEQ_CONFIGURATION, uintptr(t.pid), unsafe.Sizeof(s), uintptr(unsafe.Pointer(&s)), 0, 0)
	return s
}
