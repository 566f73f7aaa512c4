package sandbox

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

// socketShare is the part of a job's memory that its sockets may hold where no control
// group bounds it: of answers of netlink once, and of connections twice, for they have
// one such part by right where the kernel counts them apart.
const socketShare = 8

// How much CPU time a program may use, and how long it may live if it uses any,
// before its sockets are measured again.
const (
	socketsCPU   = MeterEvery
	socketsEvery = 500 * time.Millisecond
)

// socketsLook is when a program's sockets were measured last. It takes the kernel a
// walk over the sockets of the whole host, and what they hold grows in the program's own
// time. So most short ones are never asked for theirs, nor are sessions that wait for
// their clients.
type socketsLook struct {
	cpu time.Duration // that it had used by then
	at  time.Time
}

// due reports whether to measure them now, and notes it.
func (l *socketsLook) due(cpu time.Duration, now time.Time) bool {
	more := cpu - l.cpu
	if more <= 0 || more < socketsCPU && now.Sub(l.at) < socketsEvery {
		return false
	}
	l.cpu, l.at = cpu, now
	return true
}

// socketsExceed reports whether the network of process pid holds more in its sockets than
// a program with this memory may, of what no limit of the kernel stops.
func (s *Place) socketsExceed(pid int, memory int64) (bool, error) {
	share := memory / socketShare
	if !s.Foreign { // a kernel of its own has an account of its own
		if n, err := answersMemory(pid); err != nil || n > share {
			return n > share, err
		}
	}
	if few, err := fewConnections(pid, share); err != nil || few {
		return false, err
	}
	held, err := s.Group.SocketMemory()
	if err != nil || held > 2*share {
		return held > 2*share, err
	}
	n, err := unacceptedMemory(pid)
	return held+n > 2*share, err
}

// netFile returns a file of /proc/net as process pid sees it; nil if the process has
// ended or the kernel has no such file.
func netFile(pid int, name string) ([]byte, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("measure sockets: %w", err)
	}
	return data, nil
}

// fewConnections reports whether the connections in a process's network cannot hold share
// bytes, by what costs the kernel little to say: all of the host's hold less, or
// there are no three sockets, of which one listens and two are connected.
func fewConnections(pid int, share int64) (bool, error) {
	sockets := int64(0)
	for _, name := range []string{"sockstat", "sockstat6"} {
		data, err := netFile(pid, name)
		if err != nil {
			return false, err
		}
		inuse, pages := tcpCounts(data)
		if name == "sockstat" && pages*int64(os.Getpagesize()) <= share { // of both versions of IP
			return true, nil
		}
		sockets += inuse
	}
	return sockets < 3, nil
}

// tcpCounts reads sockstat or sockstat6: the sockets of the network namespace, and the
// pages that the host's hold.
func tcpCounts(sockstat []byte) (inuse, pages int64) {
	for line := range bytes.Lines(sockstat) {
		if fields := bytes.Fields(line); len(fields) > 2 && bytes.HasPrefix(fields[0], []byte("TCP")) {
			for i := 1; i+1 < len(fields); i += 2 {
				n, _ := strconv.ParseInt(string(fields[i+1]), 10, 64)
				switch string(fields[i]) {
				case "inuse":
					inuse = n
				case "mem":
					pages = n
				}
			}
		}
	}
	return inuse, pages
}

// unacceptedMemory returns how many bytes wait in connections that nobody has
// accepted. The kernel counts those for nobody until then: whoever connects to
// himself and sends holds eight megabytes with each.
func unacceptedMemory(pid int) (sum int64, err error) {
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := netFile(pid, name)
		if err != nil {
			return 0, err
		}
		n, err := sumUnaccepted(table)
		if err != nil {
			return 0, fmt.Errorf("/proc/net/%s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}

// sumUnaccepted adds up what is received and not read, the second half of the fifth
// column of /proc/net/tcp, where the tenth says that no file belongs to the socket.
func sumUnaccepted(table []byte) (sum int64, err error) {
	_, rows, _ := bytes.Cut(table, []byte("\n"))
	for row := range bytes.Lines(rows) {
		fields := bytes.Fields(row)
		if len(fields) < 10 {
			return 0, fmt.Errorf("%q", row)
		}
		if string(fields[9]) != "0" {
			continue
		}
		_, received, _ := bytes.Cut(fields[4], []byte(":"))
		n, err := strconv.ParseInt(string(received), 16, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// answersMemory returns how many bytes wait in the netlink sockets of a process's
// network namespace. No version of control groups counts them: a program that asks
// for the list of interfaces again and again, and reads nothing, holds what its
// descriptors times its largest buffer come to.
func answersMemory(pid int) (int64, error) {
	table, err := netFile(pid, "netlink")
	if err != nil {
		return 0, err
	}
	return sumRmem(table)
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
