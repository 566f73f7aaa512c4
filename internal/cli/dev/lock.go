package dev

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked is wrapped by the error of Acquire when another process holds the directory.
var ErrLocked = errors.New("data directory is in use")

// Lock is the exclusive lock of a process on a data directory. The kernel releases it when the
// process ends, however it ends.
type Lock struct{ file *os.File }

// Acquire locks the directory dir without waiting, and creates it if necessary. If another process
// holds the lock, the error wraps ErrLocked and names that process.
func Acquire(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	path := filepath.Join(dir, "lock")
	// Go opens files close-on-exec, so no child inherits the lock and outlives us with it.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is held by %s; stop it or choose another directory", ErrLocked, dir, holder(f))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// The pid is only information for people; the lock is what counts.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &Lock{file: f}, nil
}

// holder describes the process that wrote its pid into f.
func holder(f *os.File) string {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	pid := strings.TrimSpace(string(data))
	if err != nil || pid == "" {
		return "another process"
	}
	name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
	if err != nil {
		return "process " + pid
	}
	return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
}

// Release releases the lock. The lock file stays: without it, two processes could lock two
// different files.
func (l *Lock) Release() error {
	// Closing is not sufficient: a child between fork and exec still shares the open file.
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}
