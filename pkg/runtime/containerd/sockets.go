package containerd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// answersShare is the part of a job's memory that answers of the kernel may take
// which it does not read: the same as its other sockets have.
const answersShare = 8

// How much CPU time a program may use, and how long it may live if it uses any,
// before its answers are measured again.
const (
	answersCPU   = meterEvery
	answersEvery = 100 * time.Millisecond
)

// answersLook is when a program's answers were measured last. It takes the kernel a
// walk over the sockets of the whole host, and a program that does nothing gets none:
// they are made while it asks, in its own time. So most short ones are never asked
// for theirs, nor are sessions that wait for their clients.
type answersLook struct {
	cpu time.Duration // that it had used by then
	at  time.Time
}

// due reports whether to measure them now, and notes it.
func (l *answersLook) due(cpu time.Duration, now time.Time) bool {
	more := cpu - l.cpu
	if more <= 0 || more < answersCPU && now.Sub(l.at) < answersEvery {
		return false
	}
	l.cpu, l.at = cpu, now
	return true
}

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
