package containerd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// answersShare is the part of a job's memory that answers of the kernel may take
// which it does not read: the same as its other sockets have.
const answersShare = 8

// answersMemory returns how many bytes wait in the netlink sockets of a process's
// network namespace. No version of control groups counts them: a program that asks
// for the list of interfaces again and again, and reads nothing, holds what its
// descriptors times its largest buffer come to.
func answersMemory(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/netlink", pid))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		return 0, nil // it has ended
	case err != nil:
		return 0, fmt.Errorf("measure netlink sockets: %w", err)
	}
	return sumRmem(data)
}

// sumRmem adds up the fifth column of /proc/net/netlink.
func sumRmem(table []byte) (sum int64, err error) {
	_, rows, _ := bytes.Cut(table, []byte("\n"))
	for row := range bytes.Lines(rows) {
		fields := bytes.Fields(row)
		if len(fields) < 5 {
			return 0, fmt.Errorf("/proc/net/netlink: %q", row)
		}
		n, err := strconv.ParseInt(string(fields[4]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/net/netlink: %w", err)
		}
		sum += n
	}
	return sum, nil
}
