package filter

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	engine "github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// call is the kernel's struct seccomp_data, without the instruction pointer.
type call struct {
	number, arch uint32
	args         [6]uint64
}

// run evaluates a filter program like the kernel.
func run(t interface{ Fatalf(string, ...any) }, program []byte, c call) uint32 {
	data := binary.NativeEndian.AppendUint32(nil, c.number)
	data = binary.NativeEndian.AppendUint32(data, c.arch)
	data = append(data, make([]byte, 8)...)
	for _, a := range c.args {
		data = binary.NativeEndian.AppendUint64(data, a)
	}
	var acc uint32
	for pc := 0; pc < len(program)/8; pc++ {
		in := program[8*pc : 8*pc+8]
		code, k := binary.NativeEndian.Uint16(in), binary.NativeEndian.Uint32(in[4:])
		branch := func(yes bool) {
			if yes {
				pc += int(in[2])
			} else {
				pc += int(in[3])
			}
		}
		switch code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.NativeEndian.Uint32(data[k:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= k
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(k)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			branch(acc == k)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			branch(acc >= k)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			branch(acc > k)
		case unix.BPF_RET | unix.BPF_K:
			return k
		default:
			t.Fatalf("instruction %d: unknown code %#x", pc, code)
		}
	}
	t.Fatalf("ran off the end of the program")
	return 0
}

// meant evaluates a profile rule by rule.
func meant(t *rapid.T, p *specs.LinuxSeccomp, c call) uint32 {
	fallback, err := action(p.DefaultAction, p.DefaultErrnoRet)
	if err != nil {
		t.Fatal(err)
	}
	for _, conditional := range []bool{false, true} { // a rule without conditions comes first
		for _, s := range p.Syscalls {
			if conditional != (len(s.Args) > 0) || !slices.ContainsFunc(s.Names, func(n string) bool {
				number, ok := numbers[n]
				return ok && number == c.number
			}) {
				continue
			}
			holds := true
			for _, a := range s.Args {
				got := c.args[a.Index]
				switch a.Op {
				case specs.OpEqualTo:
					holds = holds && got == a.Value
				case specs.OpNotEqual:
					holds = holds && got != a.Value
				case specs.OpMaskedEqual:
					holds = holds && got&a.Value == a.ValueTwo
				case specs.OpLessThan:
					holds = holds && got < a.Value
				case specs.OpLessEqual:
					holds = holds && got <= a.Value
				case specs.OpGreaterThan:
					holds = holds && got > a.Value
				case specs.OpGreaterEqual:
					holds = holds && got >= a.Value
				}
			}
			if holds {
				what, err := action(s.Action, s.ErrnoRet)
				if err != nil {
					t.Fatal(err)
				}
				return what
			}
		}
	}
	return fallback
}

func defaultProfile(caps ...string) *specs.LinuxSeccomp {
	return engine.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: caps}}})
}

// TestEngineProfile checks the compiled engine profile for every call, and for arguments around the values in
// its rules.
func TestEngineProfile(t *testing.T) {
	t.Parallel()
	p := defaultProfile()
	program, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	interesting := []uint64{0, 1, 2, 8, 0x20000, 0x20008, 0xffffffff, 0x7e020000, 1 << 32, 1<<32 | 2, ^uint64(0), 38, 40, 41}
	rapid.Check(t, func(t *rapid.T) {
		c := call{number: uint32(rapid.IntRange(0, 480).Draw(t, "number")), arch: nativeArch}
		for i := range c.args {
			c.args[i] = rapid.OneOf(rapid.SampledFrom(interesting), rapid.Uint64()).Draw(t, "argument")
		}
		if got, want := run(t, program, c), meant(t, p, c); got != want {
			t.Fatalf("%+v: %#x, want %#x", c, got, want)
		}
	})
}

func TestEveryNumber(t *testing.T) {
	t.Parallel()
	program, err := Compile(defaultProfile())
	if err != nil {
		t.Fatal(err)
	}
	const eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	for name, want := range map[string]uint32{
		"read": unix.SECCOMP_RET_ALLOW, "execve": unix.SECCOMP_RET_ALLOW, "futex": unix.SECCOMP_RET_ALLOW,
		"mount": eperm, "bpf": eperm, "unshare": eperm, "setns": eperm, "kexec_load": eperm, "io_uring_setup": eperm, "add_key": eperm,
		"clone3": unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS),
	} {
		if got := run(t, program, call{number: numbers[name], arch: nativeArch}); got != want {
			t.Errorf("%s: %#x, want %#x", name, got, want)
		}
	}
	for _, number := range []uint32{1000, 1 << 30, 1<<30 | numbers["read"], ^uint32(0)} { // the second and third are x32
		if got := run(t, program, call{number: number, arch: nativeArch}); got != eperm {
			t.Errorf("number %d: %#x, want EPERM", number, got)
		}
	}
	for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, 0} {
		if got := run(t, program, call{number: numbers["read"], arch: arch}); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("architecture %#x: %#x, want a kill", arch, got)
		}
	}
	// No new namespaces through clone either.
	for _, flag := range []uint64{unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWPID, unix.CLONE_NEWNET} {
		if got := run(t, program, call{number: numbers["clone"], arch: nativeArch, args: [6]uint64{flag}}); got != eperm {
			t.Errorf("clone with %#x: %#x, want EPERM", flag, got)
		}
	}
}

func TestOperators(t *testing.T) {
	t.Parallel()
	operators := slices.Sorted(maps.Keys(comparisons))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.OneOf(rapid.SampledFrom([]uint64{0, 7, 8, 7 << 32, 7<<32 | 7, 7<<32 | 8, 0x100000001, 0xff1ffffff1, 1}), rapid.Uint64())
		conditions := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) specs.LinuxSeccompArg {
			a := specs.LinuxSeccompArg{
				Index: uint(rapid.IntRange(0, 5).Draw(t, "index")), Op: rapid.SampledFrom(operators).Draw(t, "operator"),
				Value: values.Draw(t, "value"), ValueTwo: values.Draw(t, "second value"),
			}
			a.ValueTwo &= a.Value
			return a
		}), 1, 3)
		p := &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{
			{Names: []string{"read"}, Action: specs.ActErrno, Args: conditions.Draw(t, "conditions")},
			{Names: []string{"read"}, Action: specs.ActErrno, Args: conditions.Draw(t, "more")},
			{Names: []string{"write", "no_such_call"}, Action: specs.ActKillProcess},
		}}
		program, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		c := call{number: numbers[rapid.SampledFrom([]string{"read", "write", "close"}).Draw(t, "name")], arch: nativeArch}
		for i := range c.args {
			c.args[i] = values.Draw(t, "argument")
		}
		if got, want := run(t, program, c), meant(t, p, c); got != want {
			t.Fatalf("%+v: %#x, want %#x", c, got, want)
		}
	})
}

func TestRefusesWhatItCannotSay(t *testing.T) {
	t.Parallel()
	for _, p := range []*specs.LinuxSeccomp{
		{DefaultAction: specs.ActNotify},
		{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{{Names: []string{"read"}, Action: specs.ActTrace}}},
		{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{{Names: []string{"read"}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Op: "SCMP_CMP_ODD"}}}}},
		{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{{Names: []string{"read"}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Op: specs.OpEqualTo, Index: 6}}}}},
	} {
		if _, err := Compile(p); err == nil {
			t.Errorf("compiled %+v", p)
		}
	}
}
