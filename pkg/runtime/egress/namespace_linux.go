package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNamespace calls f on a thread in the network namespace behind fd. Sockets created by f stay in this
// namespace.
func inNamespace(fd uintptr, f func() error) error {
	done := make(chan error)
	go func() {
		// The thread ends with this goroutine, because it has changed its namespace.
		runtime.LockOSThread()
		if err := unix.Setns(int(fd), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// dialIn returns a function that dials from the network namespace ns, or from the worker's own if
// ns is nil.
func dialIn(ns *os.File) func(context.Context, netip.AddrPort) (net.Conn, error) {
	dial := func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", to.String())
	}
	if ns == nil {
		return dial
	}
	return func(ctx context.Context, to netip.AddrPort) (conn net.Conn, err error) {
		err = inNamespace(ns.Fd(), func() (err error) {
			conn, err = dial(ctx, to) // an address needs no lookup, so this thread creates the socket
			return err
		})
		return conn, err
	}
}

// addressesIn returns the addresses of the interfaces in the namespace ns, or in the worker's own
// if ns is nil.
func addressesIn(ns *os.File) (out []netip.Addr, err error) {
	read := func() error {
		found, err := net.InterfaceAddrs()
		for _, f := range found {
			if n, ok := f.(*net.IPNet); ok {
				if a, ok := netip.AddrFromSlice(n.IP); ok {
					out = append(out, a.Unmap())
				}
			}
		}
		return err
	}
	if ns == nil {
		return out, read()
	}
	err = inNamespace(ns.Fd(), read)
	return out, err
}
