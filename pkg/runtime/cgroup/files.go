package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// period is the period of the CPU quota: the kernel's default. A throttled job waits at most this
// long.
const period = 100 * time.Millisecond

func write(file, value string) error {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = put(fd, value)
		_ = unix.Close(fd)
	}
	if err != nil {
		return &os.PathError{Op: "write " + value + " to", Path: file, Err: err}
	}
	return nil
}

// put repeats a write that a signal interrupts. Lowering a limit makes the kernel reclaim memory,
// which the signals of Go's scheduler interrupt.
func put(fd int, value string) error {
	for {
		if _, err := unix.Write(fd, []byte(value)); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func writeInt(file string, n int64) error { return write(file, strconv.FormatInt(n, 10)) }

// read returns the content of a control file, which is below a page.
func read(file string) (string, error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: file, Err: err}
	}
	defer unix.Close(fd)
	var buf [4096]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return "", &os.PathError{Op: "read", Path: file, Err: err}
	}
	return string(buf[:n]), nil
}

func readInt(file string) (int64, error) {
	text, err := read(file)
	if err != nil {
		return 0, err
	}
	return parseInt(file, text)
}

func parseInt(file, text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// readOptional is readInt for a file that older kernels lack.
func readOptional(file string) (n int64, ok bool, err error) {
	n, err = readInt(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	return n, err == nil, err
}

// readKey returns the number after key in a file of "key number" lines.
func readKey(file, key string) (int64, error) {
	text, err := read(file)
	if err != nil {
		return 0, err
	}
	return parseKey(file, key, text)
}

func parseKey(file, key, text string) (int64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+" "); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %s: %w", file, key, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s: no %s", file, key)
}

// quota returns the CPU time per period for cores, at least the kernel's minimum of a millisecond.
func quota(cores float64) int64 {
	return max(int64(cores*float64(period.Microseconds())), 1000)
}

// highest tracks the highest of numbers. It is safe for concurrent use.
type highest struct {
	mu sync.Mutex
	n  int64
}

// add returns the highest number so far, including n.
func (h *highest) add(n int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n = max(h.n, n)
	return h.n
}

func (h *highest) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n = 0
}
