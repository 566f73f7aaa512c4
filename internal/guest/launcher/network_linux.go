package launcher

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// network takes the calling thread, and what is cloned from it, into the network
// namespace ns, or into a fresh one if ns is negative.
//
// The namespace belongs to the cell's user namespace and not to a box's, in
// which nobody can so much as bring lo down then. Making one and taking it apart
// costs more than any other part of a box, so the worker keeps those in which
// nothing has happened: see package containerd.
func network(ns int) error {
	if ns >= 0 {
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network namespace: %w", err)
		}
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	return loopback()
}

// loopback brings lo up, so that a program can talk to itself.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}
