package tracee

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Supported reports that this machine's registers are supported.
const Supported = true

// injected are the instructions for a held process, and the arguments of capset.
var injected = []byte{
	// Executes calls of a table at rbx, with the number in r12, until one fails.
	0x48, 0x8b, 0x03, // mov rax, [rbx]
	0x48, 0x8b, 0x7b, 8, // mov rdi, [rbx+8]
	0x48, 0x8b, 0x73, 16, // mov rsi, [rbx+16]
	0x48, 0x8b, 0x53, 24, // mov rdx, [rbx+24]
	0x4c, 0x8b, 0x53, 32, // mov r10, [rbx+32]
	0x0f, 0x05, // syscall
	0x48, 0x83, 0xc3, 8 * tableEntry, // add rbx, 40
	0x48, 0x85, 0xc0, // test rax, rax
	0x78, 0x05, // js to the end
	0x49, 0xff, 0xcc, // dec r12
	0x75, 0xdd, // jnz to the beginning
	0xcc,       // int3
	0, 0, 0, 0, //
	// For each capability from rbx down to 0: prctl(PR_CAPBSET_DROP, capability, 0, 0, 0).
	0x48, 0x89, 0xde, // mov rsi, rbx
	0xb8, unix.SYS_PRCTL, 0, 0, 0, // mov eax, SYS_PRCTL
	0x0f, 0x05, // syscall
	0x48, 0xff, 0xcb, // dec rbx
	0x79, 0xf1, // jns to the beginning
	0xcc, // int3
	// One call.
	0x0f, 0x05, // syscall
	0xcc,          // int3
	0, 0, 0, 0, 0, //
	// struct __user_cap_header_struct: version 3, and the process itself.
	0x22, 0x05, 0x08, 0x20, 0, 0, 0, 0,
	// Two of struct __user_cap_data_struct: none.
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
}

// Offsets in injected, and the positions after its breakpoints.
const (
	tableEnd  = 36
	dropBegin = 40
	dropEnd   = dropBegin + 16
	callBegin = dropBegin + 16
	callEnd   = callBegin + 3
	capHeader = dropBegin + 24
	capNone   = capHeader + 8
)

// registers are the registers of a process.
type registers struct{ unix.PtraceRegs }

func (r *registers) read(pid int) error {
	if err := unix.PtraceGetRegs(pid, &r.PtraceRegs); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	return nil
}

func (r *registers) write(pid int) error {
	if err := unix.PtraceSetRegs(pid, &r.PtraceRegs); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	return nil
}

// at returns the address of the next instruction.
func (r *registers) at() uintptr { return uintptr(r.Rip) }

// calling returns r prepared for a system call by the instructions at code.
func (r *registers) calling(code, nr uintptr, args ...uintptr) *registers {
	n := *r
	for i, to := range []*uint64{&n.Rdi, &n.Rsi, &n.Rdx, &n.R10, &n.R8, &n.R9}[:len(args)] {
		*to = uint64(args[i])
	}
	n.Rip, n.Rax, n.Orig_rax = uint64(code+callBegin), uint64(nr), ^uint64(0) // it is in no restartable call
	return &n
}

// dropping returns r prepared to drop every capability up to last permanently.
func (r *registers) dropping(code, last uintptr) *registers {
	n := r.calling(code, 0, unix.PR_CAPBSET_DROP, 0, 0, 0, 0)
	n.Rip, n.Rbx = uint64(code+dropBegin), uint64(last)
	return n
}

// callingAll returns r prepared for this many calls of the table at at.
func (r *registers) callingAll(code, at uintptr, calls int) *registers {
	n := r.calling(code, 0)
	n.Rip, n.Rbx, n.R12 = uint64(code), uint64(at), uint64(calls)
	return n
}

// left returns how many calls of a table were not completed, including a failed one.
func (r *registers) left() int { return int(r.R12) }

// result returns the error of a call, if any.
func (r *registers) result() error {
	if n := int64(r.Rax); n < 0 && n > -4096 {
		return unix.Errno(-n)
	}
	return nil
}

// value returns the value of a successful call.
func (r *registers) value() uintptr { return uintptr(r.Rax) }

// spare returns the start, downwards, of memory that a held process does not use: below its stack
// and the red zone of leaf functions.
func (r *registers) spare() uintptr { return uintptr(r.Rsp) - 512 }

// forking reports whether a stopped process forks like fork(2), without sharing anything with its
// child. It also returns the address for the child's number.
func (r *registers) forking() (tid uintptr, ok bool) {
	const harmless = unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID | unix.CLONE_PARENT_SETTID
	switch r.Orig_rax {
	case unix.SYS_FORK:
		return 0, true
	case unix.SYS_CLONE:
		if r.Rdi&unix.CLONE_CHILD_SETTID != 0 {
			tid = uintptr(r.R10)
		}
		return tid, r.Rdi&^harmless == uint64(unix.SIGCHLD)
	}
	return 0, false
}
