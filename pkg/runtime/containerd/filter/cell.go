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

// boxCalls are what the making of a box takes beyond the engine's default
// profile, and what a job is refused again: see Cell and Job.
var boxCalls = map[string]uint32{
	"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2,
	"pivot_root": unix.SYS_PIVOT_ROOT, "move_mount": unix.SYS_MOVE_MOUNT, "sethostname": unix.SYS_SETHOSTNAME,
}

// Cell is the profile of a cell's container: the engine's default and
// exactly what the making of boxes takes.
func Cell() *specs.LinuxSeccomp {
	p := engineSeccomp()
	p.Syscalls = slices.DeleteFunc(slices.Clone(p.Syscalls), func(s specs.LinuxSyscall) bool {
		return len(s.Names) == 1 && s.Names[0] == "clone" // allowed without namespaces: here, with
	})
	names := []string{"clone"}
	for name := range boxCalls {
		names = append(names, name)
	}
	p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: names, Action: specs.ActAllow})
	return p
}

// Numbers of the kernel, from linux/seccomp.h and linux/audit.h.
const (
	seccompAllow = 0x7fff0000
	seccompErrno = 0x00050000
	dataCall     = 0  // offsets in struct seccomp_data
	dataArch     = 4  //
	dataArg0     = 16 // its lower half, on the little-endian machines that we run on
	x32          = 0x40000000
)

var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// Job is the seccomp filter that a job gets on top of its cell's: it takes
// back what the cell's has beyond Program. It is short on
// purpose, because it is installed for every job, and because the kernel runs
// both for every call of a job that its cache does not know to be harmless.
//
// A job that may be copied owns the boxes of its copies, and so has capabilities over
// what it might get hold of there, a socket of one's network for instance. So it has
// no call, option or request that takes one: see socketRules. It does not enter
// anything itself, see enter.
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
		refuse(unix.ENOSYS), // another architecture's numbers mean other calls
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
