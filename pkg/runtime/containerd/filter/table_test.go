package filter

import (
	"encoding/binary"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// vm runs a compiled filter. It reads numbers as a network has them.
func vm(t *testing.T, filter []byte) *bpf.VM {
	t.Helper()
	var raw []bpf.RawInstruction
	for ; len(filter) > 0; filter = filter[8:] {
		raw = append(raw, bpf.RawInstruction{Op: binary.NativeEndian.Uint16(filter), Jt: filter[2], Jf: filter[3], K: binary.NativeEndian.Uint32(filter[4:])})
	}
	all, decoded := bpf.Disassemble(raw)
	if !decoded {
		t.Fatal("the filter has unknown instructions")
	}
	m, err := bpf.NewVM(all)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// decide is the answer of a filter to a call with one argument.
func decide(t *testing.T, m *bpf.VM, number int, arg uint32) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data, uint32(number))
	binary.BigEndian.PutUint32(data[dataArch:], auditArch["amd64"])
	binary.BigEndian.PutUint32(data[dataArg0:], arg)
	answer, err := m.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(answer)
}

// TestLevelsHaveOneList compares the system calls of programs in cells with those of programs in containers
// of their own, which gvisor uses, too.
func TestLevelsHaveOneList(t *testing.T) {
	if auditArch["amd64"] != auditArch[runtime.GOARCH] {
		t.Log("the table is that of amd64")
		return
	}
	cell, err := Compile(Cell())
	if err != nil {
		t.Fatal(err)
	}
	job, err := Job(false)
	if err != nil {
		t.Fatal(err)
	}
	program, err := Compile(Program())
	if err != nil {
		t.Fatal(err)
	}
	inCell, onTop, alone := vm(t, cell), vm(t, job), vm(t, program)
	for _, strict := range []bool{false, true} { // a policy removes the same calls, too: both levels use the newer filter
		for _, r := range []restriction{{strict: strict, alone: true}, {strict: strict}, {strict: strict, network: strict}} {
			filter, err := Compile(r.profile())
			if err != nil {
				t.Fatal(err)
			}
			restricted := vm(t, filter)
			for number := range 500 {
				if decide(t, restricted, number, 0) == seccompAllow && decide(t, inCell, number, 0) != seccompAllow {
					t.Errorf("%+v: call %d is allowed in a container, and not in a cell", r, number)
				}
			}
		}
	}
	missing := uint32(seccompErrno | uint32(unix.ENOSYS))
	for number := range 500 {
		for _, arg := range []uint32{0, 1, 2, unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_PARENT, unix.CLONE_THREAD} {
			got := decide(t, onTop, number, arg) // the newer filter's errors go first
			if got == seccompAllow {
				got = decide(t, inCell, number, arg)
			}
			want := decide(t, alone, number, arg)
			if (got == seccompAllow) != (want == seccompAllow) || number <= firstNewest+20 && got != want {
				t.Errorf("call %d with %#x: %#x in a cell, %#x in a container", number, arg, got, want)
			}
		}
	}
	for name, number := range map[string]int{"statmount": 457, "listmount": 458, "fchmodat2": 452, "listns": 470, "mseal": 462} {
		if got := decide(t, alone, number, 0); got != missing {
			t.Errorf("%s: %#x, want ENOSYS", name, got)
		}
	}
}
