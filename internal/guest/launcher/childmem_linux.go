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
// that it writes to after a fork was a third of the cost of a box.
//
// None of it is of use to a supervisor. So it is not inherited (solitude), and
// what supervisors do use is kept apart from it: the program's own variables
// (room), heirlooms, and a stack to stand on (clone).

// heirloom is memory that processes inherit which the launcher forks.
type heirloom struct {
	chunks [][]byte
	rest   []byte // of the last chunk
	err    error  // of the system; what was returned since is not inherited
}

const heirloomChunk = 64 << 10

// alloc returns n zeroed bytes, aligned for anything.
func (h *heirloom) alloc(n int) []byte {
	const align = 8
	n = (n + align - 1) &^ (align - 1)
	if n > len(h.rest) {
		chunk, err := unix.Mmap(-1, 0, max(n, heirloomChunk), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			h.err = fmt.Errorf("memory for a supervisor: %w", err)
			return make([]byte, n)
		}
		h.chunks, h.rest = append(h.chunks, chunk), chunk
	}
	out := h.rest[:n:n]
	h.rest = h.rest[n:]
	return out
}

// bytes returns a copy of b.
func (h *heirloom) bytes(b []byte) []byte {
	out := h.alloc(len(b))[:len(b)]
	copy(out, b)
	return out
}

// free returns the memory to the system.
func (h *heirloom) free() {
	for _, c := range h.chunks {
		_ = unix.Munmap(c)
	}
	*h = heirloom{}
}

// solitude keeps from the processes that this one forks from now on what is the
// Go runtime's and this program's own: all that is mapped, is no file's, and
// does not hold the program's variables. Mappings that are made later are
// inherited. A process that shares its memory with this one until it executes
// something, as those of os/exec do, lacks nothing.
func solitude() error {
	if !ownStack {
		return nil // supervisors stand on a stack of the runtime
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	variables := uintptr(unsafe.Pointer(&room))
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
		if uintptr(begin) <= variables && variables < uintptr(end) || heirs(uintptr(begin), uintptr(end)) {
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
