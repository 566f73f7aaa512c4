package cell

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

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
// box, but for those that were on their way through another socket and are there
// until the kernel looks for them: they are counted. All else takes rights over the
// namespace that no program has.
type network struct {
	fd     int
	owner  int              // the user namespace that owns it, if that is its own and not the cell's; -1
	tables [len(traces)]int // descriptors; -1 where the kernel has none
	fresh  [len(traces)]string
}

// traces are the files of /proc/net that are compared. A label of flows outlives
// its socket, for minutes, with an address of the program's choice; who is in a
// group of multicast outlives it for a moment.
var traces = [...]string{"snmp", "snmp6", "ip6_flowlabel", "igmp", "igmp6", socketCounts}

// socketCounts is that of which only the first line is compared, the sockets of any kind
// that are there: others are of the whole host.
const socketCounts = "sockstat"

// tableSize is how much of a table is compared.
const tableSize = 8 << 10

// maxNetworks bounds those of a cell that wait.
const maxNetworks = 64

// openNetwork returns the namespace of process pid, in which nothing has
// happened yet, and what owns it if that is its own.
func openNetwork(pid int, own bool) (_ *network, err error) {
	n := &network{fd: -1, owner: -1}
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
	if own {
		if n.owner, err = unix.IoctlRetInt(n.fd, unix.NS_GET_USERNS); err != nil {
			return nil, fmt.Errorf("open the owner of a network namespace: %w", err)
		}
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
		var b [tableSize]byte
		got, err := n.read(i, &b)
		if err != nil {
			return nil, fmt.Errorf("read a table of a network namespace: %w", err)
		}
		n.fresh[i] = string(got)
	}
	return n, nil
}

// read returns what is compared of table i.
func (n *network) read(i int, b *[tableSize]byte) ([]byte, error) {
	got, err := unix.Pread(n.tables[i], b[:], 0)
	if err != nil {
		return nil, err
	}
	if traces[i] == socketCounts {
		first, _, _ := bytes.Cut(b[:got], []byte("\n"))
		return first, nil
	}
	return b[:got], nil
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
		if got, err := n.read(i, &b); err != nil || string(got) != n.fresh[i] {
			return false
		}
	}
	return true
}

// files appends the descriptors by which it is entered, in order.
func (n *network) files(to []int) []int {
	if n.owner >= 0 {
		to = append(to, n.owner)
	}
	return append(to, n.fd)
}

func (n *network) close() {
	for _, fd := range append(n.tables[:], n.fd, n.owner) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// networks are those that wait for a box: of a cell, or of what programs are forked from,
// whose boxes can only be in those that were made for them.
type networks struct {
	mu      sync.Mutex
	waiting []*network
	closed  bool
}

// take returns a namespace in which nothing has happened; nil if none waits.
func (ns *networks) take() *network {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if len(ns.waiting) == 0 {
		return nil
	}
	n := ns.waiting[len(ns.waiting)-1]
	ns.waiting = ns.waiting[:len(ns.waiting)-1]
	return n
}

// give keeps n for the next box, or lets go of it. The box that was in it is gone.
func (ns *networks) give(n *network) {
	if !n.untouched() || !ns.keep(n) {
		n.close()
	}
}

func (ns *networks) keep(n *network) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed || len(ns.waiting) >= maxNetworks {
		return false
	}
	ns.waiting = append(ns.waiting, n)
	return true
}

// close lets go of all, and of those that are given from now on.
func (ns *networks) close() {
	ns.mu.Lock()
	waiting := ns.waiting
	ns.waiting, ns.closed = nil, true
	ns.mu.Unlock()
	for _, n := range waiting {
		n.close()
	}
}

// networks are those that a box like that of s may be in; nil: one of its own.
func (s *slot) networks() *networks {
	switch {
	case s.copied():
		return nil
	case s.preload != nil:
		return &s.preload.nets
	}
	return &s.cell.nets
}

// giveNetwork gives the network of s back, of which nothing is left if it is clean.
func (s *slot) giveNetwork(clean bool) {
	switch {
	case s.net == nil:
	case clean && s.cell.lasts():
		s.networks().give(s.net)
	default:
		s.net.close()
	}
}

// lasts reports whether the cell may make more boxes.
func (c *cell) lasts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.retired
}
