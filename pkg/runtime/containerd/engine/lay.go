package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// LayDevices creates the /dev of a cell or of a container: a separate file system, because others
// are often mounted with nodev, and the host's device files are shared.
func LayDevices(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("assay", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,nr_inodes=64,mode=0755"); err != nil {
		return fmt.Errorf("mount devices: %w", err)
	}
	var errs []error
	for name, number := range map[string]uint64{
		"null": unix.Mkdev(1, 3), "zero": unix.Mkdev(1, 5), "full": unix.Mkdev(1, 7),
		"random": unix.Mkdev(1, 8), "urandom": unix.Mkdev(1, 9), "tty": unix.Mkdev(5, 0),
	} {
		file := filepath.Join(dir, name)
		errs = append(errs, unix.Mknod(file, unix.S_IFCHR|0o666, int(number)), os.Chmod(file, 0o666))
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		errs = append(errs, os.Symlink(target, filepath.Join(dir, name)))
	}
	for _, name := range []string{"pts", "shm"} {
		errs = append(errs, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("make devices: %w", err)
	}
	return nil
}

// RaiseOpenFiles lets a process give its children any limit of open files that this host allows.
// Without CAP_SYS_RESOURCE it allows at most the worker's own limit.
func RaiseOpenFiles(pid int) error {
	data, err := os.ReadFile("/proc/sys/fs/nr_open")
	if err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return fmt.Errorf("/proc/sys/fs/nr_open: %w", err)
	}
	err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}, nil)
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	return nil
}

// LimitStack sets the stack limit of a process.
func LimitStack(pid int, l guest.StackLimit) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_STACK, nil, &now); err != nil {
		return fmt.Errorf("read the limit of the stack: %w", err)
	}
	now.Cur = l.Bytes()
	if l.Hard() || now.Max < now.Cur {
		now.Max = now.Cur
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_STACK, &now, nil); err != nil {
		return fmt.Errorf("limit the stack: %w", err)
	}
	return nil
}

// RaiseStack sets the initial stack limit of interpreters. Without CAP_SYS_RESOURCE it sets at most
// the hard limit.
func RaiseStack(pid int) error {
	err := LimitStack(pid, guest.NewStackLimit(guest.MostStack, false))
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}
