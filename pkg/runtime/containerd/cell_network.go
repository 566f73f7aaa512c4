package containerd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// network is a network namespace of a cell: lo, and at most one box.
//
// The kernel takes longer to make one and to take it apart than for everything
// else that a box is made of, so it serves the next box as well if nothing has
// happened in it. Every packet, and every attempt to send one, moves a counter
// of /proc/net/snmp or snmp6 that nobody in the cell can turn back; without a
// packet there is no connection, no TIME_WAIT, no route, no metric and no counter
// that the next job could find. Sockets and abstract names end with the box.
type network struct {
	fd       int
	counters [2]int // descriptors of snmp and snmp6; -1 where the kernel has none
	fresh    [2]string
}

// maxNetworks bounds those of a cell that wait.
const maxNetworks = 64

// openNetwork returns the namespace of process pid, in which nothing has
// happened yet.
func openNetwork(pid int) (_ *network, err error) {
	n := &network{fd: -1, counters: [2]int{-1, -1}}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.fd, err = unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open a network namespace: %w", err)
	}
	for i, name := range []string{"snmp", "snmp6"} {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) { // without IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open the counters of a network namespace: %w", err)
		}
		n.counters[i] = fd
		if n.fresh[i], err = readCounters(fd); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func readCounters(fd int) (string, error) {
	if fd < 0 {
		return "", nil
	}
	var b [8 << 10]byte
	n, err := unix.Pread(fd, b[:], 0)
	if err != nil {
		return "", fmt.Errorf("read the counters of a network namespace: %w", err)
	}
	return string(b[:n]), nil
}

// untouched reports whether nothing has happened in the namespace.
func (n *network) untouched() bool {
	if n.fresh == [2]string{} {
		return false
	}
	for i, fd := range n.counters {
		if now, err := readCounters(fd); err != nil || now != n.fresh[i] {
			return false
		}
	}
	return true
}

func (n *network) close() {
	for _, fd := range append(n.counters[:], n.fd) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// takeNetwork returns a namespace in which nothing has happened; nil if none
// waits.
func (c *cell) takeNetwork() *network {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.nets) == 0 {
		return nil
	}
	n := c.nets[len(c.nets)-1]
	c.nets = c.nets[:len(c.nets)-1]
	return n
}

// giveNetwork keeps n for the next box, or lets go of it. The box is gone.
func (c *cell) giveNetwork(n *network) {
	if !n.untouched() || !c.keepNetwork(n) {
		n.close()
	}
}

func (c *cell) keepNetwork(n *network) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired || len(c.nets) >= maxNetworks {
		return false
	}
	c.nets = append(c.nets, n)
	return true
}
