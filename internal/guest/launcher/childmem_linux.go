package launcher

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A supervisor is a fork of the launcher, which is a Go program: a megabyte of
// heap and of the runtime's notes on it, in thirty mappings. To copy their page
// tables, to take them down again, and to fault in the launcher for each page
// that it writes to after a fork was a third of the cost of a box. Without what is
// here, a Python job takes 1.08 times the CPU time: the median of five alternating
// rounds of bin/bench -beside, which said 1.01 to 1.11.
//
// None of it is of use to a supervisor. So it is not inherited (excludeFromForks),
// and what supervisors do use is apart from it: the program's own variables, calls,
// which are in a childMem, and a stack (clone_amd64.go).

// childMem is memory that supervisors inherit.
type childMem struct {
	chunks [][]byte
	rest   []byte // of the last chunk
	err    error  // of the system; what was returned since is not inherited
}

const childMemChunk = 64 << 10

// alloc returns n zeroed bytes, aligned for anything.
func (m *childMem) alloc(n int) []byte {
	const align = 8
	n = (n + align - 1) &^ (align - 1)
	if n > len(m.rest) {
		chunk, err := unix.Mmap(-1, 0, max(n, childMemChunk), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			m.err = fmt.Errorf("memory for a supervisor: %w", err)
			return make([]byte, n)
		}
		m.chunks, m.rest = append(m.chunks, chunk), chunk
	}
	out := m.rest[:n:n]
	m.rest = m.rest[n:]
	return out
}

// bytes returns a copy of b.
func (m *childMem) bytes(b []byte) []byte {
	out := m.alloc(len(b))[:len(b)]
	copy(out, b)
	return out
}

// calls returns a copy of calls, with all that they refer to.
func (m *childMem) calls(calls []call) ([]call, error) {
	size := int(unsafe.Sizeof(call{}))
	mem := m.alloc(size * len(calls))
	out := unsafe.Slice((*call)(unsafe.Pointer(&mem[0])), len(calls))
	for i, c := range calls {
		c.failure = m.bytes(c.failure)
		out[i] = c
	}
	return out, m.err
}

// free returns the memory to the system.
func (m *childMem) free() {
	for _, c := range m.chunks {
		_ = unix.Munmap(c)
	}
	*m = childMem{}
}

// excludeFromForks keeps the Go heap and the runtime's memory from all processes that
// this one forks from now on (MADV_DONTFORK): every mapping that is no file's and does
// not hold the program's variables. Later mappings are inherited. Processes of os/exec
// share the memory of this one until they execute something, and so lack nothing.
func excludeFromForks() error {
	if !hasChildStack {
		return nil // supervisors use a stack of the runtime
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	variables := addr(&state)
	for line := range bytes.Lines(maps) {
		fields := bytes.Fields(line)
		if len(fields) != 5 {
			continue // a file's, the kernel's, or the stack, which has the command line
		}
		from, to, _ := bytes.Cut(fields[0], []byte("-"))
		begin, err1 := strconv.ParseUint(string(from), 16, 64)
		end, err2 := strconv.ParseUint(string(to), 16, 64)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("/proc/self/maps: %q", line)
		}
		if uintptr(begin) <= variables && variables < uintptr(end) || holdsChildStack(uintptr(begin), uintptr(end)) {
			continue
		}
		_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin), unix.MADV_DONTFORK)
	}
	return nil
}

// handled returns the set of the signals that this process has handlers for.
func handled() (set uint64) {
	for sig := uintptr(1); sig <= 64; sig++ {
		var action [4]uint64 // struct sigaction of the kernel
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
		if errno == 0 && action[0] > 1 { // neither SIG_DFL nor SIG_IGN
			set |= 1 << (sig - 1)
		}
	}
	return set
}
