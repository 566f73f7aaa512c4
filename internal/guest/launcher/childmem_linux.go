package launcher

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A supervisor is a fork of the launcher, which has a Go heap and runtime data of a megabyte in
// thirty mappings. Their page tables would be copied and removed for each box, and each write of
// the launcher after a fork would fault. This was a third of a box's cost. Without this file, a
// Python job takes 1.08 times the CPU time (1.01 to 1.11, the median of five alternating rounds of
// bin/bench -beside).
//
// A supervisor needs none of this memory, so excludeFromForks excludes it. A supervisor uses only
// the program's own variables, the calls in a childMem, and a separate stack (clone_amd64.go).

// childMem is memory that supervisors inherit.
type childMem struct {
	chunks [][]byte
	rest   []byte // of the last chunk
	err    error  // from the system; supervisors do not inherit memory allocated since
}

const childMemChunk = 64 << 10

// alloc returns n zeroed bytes, aligned for any type.
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

// calls returns a copy of calls with all of their data.
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

// excludeFromForks excludes the Go heap and the runtime's memory from later forks (MADV_DONTFORK):
// every anonymous mapping without program variables. Mappings made later are inherited. Processes
// of os/exec share this process's memory until execve, so they are not affected.
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
			continue // a file, the kernel's, or the stack, which has the command line
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

// handled returns the set of signals with a handler in this process.
func handled() (set uint64) {
	for sig := uintptr(1); sig <= 64; sig++ {
		var action [4]uint64 // the kernel's struct sigaction
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
		if errno == 0 && action[0] > 1 { // neither SIG_DFL nor SIG_IGN
			set |= 1 << (sig - 1)
		}
	}
	return set
}
