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
// Creating and destroying one takes the kernel longer than the rest of a box, so the next box
// reuses it if it is unmodified. Every sent or attempted packet increases a counter in
// /proc/net/snmp or snmp6 that no process in the cell can reset. Without packets there are no
// connections, TIME_WAITs, routes, metrics or counters that the next job could find. The tables in
// traces show state that a program can leave without packets. Sockets, abstract names and their
// state end with the box. Sockets in transit through another socket survive until the kernel
// collects them, so sockets are counted. Other changes require rights over the namespace that no
// program has.
type network struct {
	fd     int
	owner  int              // its own user namespace; -1: the cell's owns it
	tables [len(traces)]int // descriptors; -1 if the kernel lacks the table
	fresh  [len(traces)]string
}

// traces lists the compared files of /proc/net. A flow label outlives its socket for minutes, with
// an address of the program's choice. Multicast membership outlives it for a moment.
var traces = [...]string{"snmp", "snmp6", "ip6_flowlabel", "igmp", "igmp6", socketCounts}

// socketCounts is compared in its first line only, the number of sockets. The other lines are for
// the whole host.
const socketCounts = "sockstat"

// tableSize is the compared length of a table.
const tableSize = 8 << 10

// maxNetworks limits the waiting networks of a cell.
const maxNetworks = 64

// openNetwork returns the new, unmodified namespace of process pid, and its owner if own is set.
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

// read returns the compared part of table i.
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

// untouched reports whether the namespace is unmodified.
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

// files appends the descriptors for entering it, in order.
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

// networks are waiting networks of a cell, or of a preload, whose boxes need networks of their own.
type networks struct {
	mu      sync.Mutex
	waiting []*network
	closed  bool
}

// take returns an unmodified namespace, or nil.
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

// give keeps n for the next box, or closes it. The previous box is gone.
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

// close closes all networks, and later ones when they are given.
func (ns *networks) close() {
	ns.mu.Lock()
	waiting := ns.waiting
	ns.waiting, ns.closed = nil, true
	ns.mu.Unlock()
	for _, n := range waiting {
		n.close()
	}
}

// networks returns the waiting networks for boxes like that in s; nil: a box needs a new one.
func (s *slot) networks() *networks {
	switch {
	case s.copied():
		return nil
	case s.preload != nil:
		return &s.preload.nets
	}
	return &s.cell.nets
}

// giveNetwork returns the network of s. It is clean if no process of the box is left.
func (s *slot) giveNetwork(clean bool) {
	switch {
	case s.net == nil:
	case clean && s.cell.lasts():
		s.networks().give(s.net)
	default:
		s.net.close()
	}
}

// lasts reports whether the cell may create more boxes.
func (c *cell) lasts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.retired
}
