package launcher

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// network moves the calling thread, and its later clones, into the network namespace ns, or into a
// new one if ns is negative.
//
// The namespace belongs to the cell's user namespace, not to a box's, so a box cannot even bring lo
// down. Its creation and destruction cost more than any other part of a box, so the worker reuses
// unmodified ones: see package containerd.
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

// loopback brings lo up, so that a program can connect to itself.
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
