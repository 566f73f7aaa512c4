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
// that the next job could find. What a program can leave without one, the tables of
// traces tell. Sockets, abstract names and what belongs to a socket end with the
// box; all else takes rights over the namespace that no program has.
type network struct {
	fd     int
	tables [len(traces)]int // descriptors; -1 where the kernel has none
	fresh  [len(traces)]string
}

// traces are the files of /proc/net that are compared. A label of flows outlives
// its socket, for minutes, with an address of the program's choice; who is in a
// group of multicast outlives it for a moment.
var traces = [...]string{"snmp", "snmp6", "ip6_flowlabel", "igmp", "igmp6"}

// tableSize is how much of a table is compared.
const tableSize = 8 << 10

// maxNetworks bounds those of a cell that wait.
const maxNetworks = 64

// openNetwork returns the namespace of process pid, in which nothing has
// happened yet.
func openNetwork(pid int) (_ *network, err error) {
	n := &network{fd: -1}
	for i := range n.tables {
		n.tables[i] = -1
	}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.fd, err = unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open a network namespace: %w", err)
	}
	for i, name := range traces {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) { // without IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open the tables of a network namespace: %w", err)
		}
		n.tables[i] = fd
		if n.fresh[i], err = readTable(fd); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func readTable(fd int) (string, error) {
	if fd < 0 {
		return "", nil
	}
	var b [tableSize]byte
	n, err := unix.Pread(fd, b[:], 0)
	if err != nil {
		return "", fmt.Errorf("read a table of a network namespace: %w", err)
	}
	return string(b[:n]), nil
}

// untouched reports whether nothing has happened in the namespace.
func (n *network) untouched() bool {
	if n.fresh[0] == "" {
		return false
	}
	var b [tableSize]byte
	for i, fd := range n.tables {
		if fd < 0 {
			continue
		}
		if got, err := unix.Pread(fd, b[:], 0); err != nil || string(b[:got]) != n.fresh[i] {
			return false
		}
	}
	return true
}

func (n *network) close() {
	for _, fd := range append(n.tables[:], n.fd) {
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
