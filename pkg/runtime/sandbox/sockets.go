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

// socketShare is the part of a job's memory that its sockets may use if no control group limits
// them: one part for netlink responses and two for connections. If the kernel counts connections
// separately, it grants one such part itself.
const socketShare = 8

// mostNetlink limits the netlink sockets of a job. The kernel has one table for the whole host,
// which it walks to show one job's sockets.
const mostNetlink = 1024

// A program's sockets are measured after this CPU time, and after this time if it used any CPU.
const (
	socketsCPU   = MeterEvery
	socketsEvery = 500 * time.Millisecond
	socketsLate  = 2 * time.Second // the same with an exhausted ration of looks, because this enforces a memory limit
)

// socketsLook records the last measurement of a program's sockets. Their memory only grows in the
// program's own time, so short programs and idle sessions are never measured.
type socketsLook struct {
	cpu time.Duration // its CPU time at that time
	at  time.Time
}

// due reports whether to measure now, and records that. affords reports whether the ration of looks
// allows it.
func (l *socketsLook) due(cpu time.Duration, now time.Time, affords bool) bool {
	more, passed := cpu-l.cpu, now.Sub(l.at)
	if more <= 0 || more < socketsCPU && passed < socketsEvery || !affords && passed < socketsLate {
		return false
	}
	l.cpu, l.at = cpu, now
	return true
}

// socketsExceed reports whether the sockets in the network of process pid exceed the limits of a
// program with this memory. It measures resources that the kernel does not limit.
func (s *Place) socketsExceed(pid int, memory int64) (bool, error) {
	share := memory / socketShare
	if !s.Foreign { // a separate kernel has its own accounting
		if over, err := netlinkExceeds(pid, share); err != nil || over {
			return over, err
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

// netFile returns a file of /proc/net as process pid sees it. It returns nil if the process has
// ended or the kernel lacks the file.
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

// fewConnections reports whether the connections in a process's network certainly use at most share
// bytes, with cheap checks. Either the whole host uses less, or there are fewer than three sockets:
// one that listens and two connected ones.
func fewConnections(pid int, share int64) (bool, error) {
	sockets := int64(0)
	for _, name := range []string{"sockstat", "sockstat6"} {
		data, err := netFile(pid, name)
		if err != nil {
			return false, err
		}
		inuse, pages := tcpCounts(data)
		if name == "sockstat" && pages*int64(os.Getpagesize()) <= share { // for both versions of IP
			return true, nil
		}
		sockets += inuse
	}
	return sockets < 3, nil
}

// tcpCounts reads sockstat or sockstat6: the sockets of the network namespace, and the host's total
// pages.
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

// unacceptedMemory returns the bytes in unaccepted connections. The kernel does not charge them to
// any group before they are accepted: a program that connects to itself can use eight megabytes
// with each.
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

// sumUnaccepted adds up received, unread bytes (the second half of the fifth column of
// /proc/net/tcp) of sockets without a file (by the tenth column).
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

// netlinkExceeds reports whether the netlink sockets of a process's network use more than share
// bytes, or are too many. It reads the host's table only if this network has such sockets.
func netlinkExceeds(pid int, share int64) (bool, error) {
	protocols, err := netFile(pid, "protocols")
	if err != nil {
		return false, err
	}
	if n := netlinkSockets(protocols); n == 0 || n > mostNetlink {
		return n > 0, nil
	}
	held, err := answersMemory(pid)
	return held > share, err
}

// netlinkSockets reads the number of netlink sockets from one network's /proc/net/protocols.
func netlinkSockets(protocols []byte) int64 {
	for line := range bytes.Lines(protocols) {
		if fields := bytes.Fields(line); len(fields) > 2 && string(fields[0]) == "NETLINK" {
			n, _ := strconv.ParseInt(string(fields[2]), 10, 64)
			return n
		}
	}
	return 0
}

// answersMemory returns the bytes in the netlink sockets of a process's network. No version of
// control groups counts them: a program that repeatedly requests the list of interfaces, and reads
// nothing, fills each socket's buffer.
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
