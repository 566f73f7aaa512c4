package filter

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// boxCalls are the calls that the set-up of a box needs beyond the engine's default profile. Jobs
// may not make them: see Cell and Job.
var boxCalls = map[string]uint32{
	"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2,
	"pivot_root": unix.SYS_PIVOT_ROOT, "move_mount": unix.SYS_MOVE_MOUNT, "sethostname": unix.SYS_SETHOSTNAME,
}

// Cell returns the profile of a cell's container: the engine's default plus the calls for the
// set-up of boxes.
func Cell() *specs.LinuxSeccomp {
	p := engineSeccomp()
	p.Syscalls = slices.DeleteFunc(slices.Clone(p.Syscalls), func(s specs.LinuxSyscall) bool {
		return len(s.Names) == 1 && s.Names[0] == "clone" // allowed without namespaces; here also with them
	})
	names := []string{"clone"}
	for name := range boxCalls {
		names = append(names, name)
	}
	p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: names, Action: specs.ActAllow})
	return p
}

// Constants of linux/seccomp.h and linux/audit.h.
const (
	seccompAllow = 0x7fff0000
	seccompErrno = 0x00050000
	dataCall     = 0  // offsets in struct seccomp_data
	dataArch     = 4  //
	dataArg0     = 16 // its lower half, on our little-endian machines
	x32          = 0x40000000
)

var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// Job returns the seccomp filter of a job on top of its cell's: it forbids the calls that exceed
// Program. It is short because it is installed for every job, and the kernel runs both filters for
// every call that its cache does not allow.
//
// A job that may be copied owns the boxes of its copies. So it has capabilities over objects from
// them, such as a socket of their network. The filter therefore forbids calls, options and requests
// that use a capability: see socketRules. The job does not enter boxes itself, see enter.
func Job(forks bool) ([]byte, error) {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("seccomp: no architecture %s", runtime.GOARCH)
	}
	denied := []uint32{}
	for _, nr := range boxCalls {
		denied = append(denied, nr)
	}
	slices.Sort(denied)
	refuse := func(e unix.Errno) bpf.Instruction { return bpf.RetConstant{Val: seccompErrno | uint32(e)} }
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		refuse(unix.ENOSYS), // another architecture has other numbers
		bpf.LoadAbsolute{Off: dataCall, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1},
		refuse(unix.ENOSYS),
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: firstNewest, SkipTrue: 1},
		refuse(unix.ENOSYS),
	}
	for _, nr := range denied {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: 1}, refuse(unix.EPERM))
	}
	if forks {
		program = append(program, socketRules()...)
	}
	program = append(program,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_PRLIMIT64, SkipFalse: 8},
		bpf.LoadAbsolute{Off: dataArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 4}, // its own
		bpf.LoadAbsolute{Off: dataArg0 + 2*8, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 3},
		bpf.LoadAbsolute{Off: dataArg0 + 2*8 + 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1},
		bpf.RetConstant{Val: seccompAllow},
		refuse(unix.EPERM),

		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE, SkipTrue: 1},
		bpf.RetConstant{Val: seccompAllow},
		bpf.LoadAbsolute{Off: dataArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaceFlags | unix.CLONE_PARENT, SkipTrue: 1},
		bpf.RetConstant{Val: seccompAllow},
		refuse(unix.EPERM),
	)
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	var out []byte
	for _, i := range raw { // struct sock_filter
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = binary.NativeEndian.AppendUint32(append(out, i.Jt, i.Jf), i.K)
	}
	return out, nil
}
