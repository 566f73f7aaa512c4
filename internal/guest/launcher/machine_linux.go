package launcher

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Machine prepares process 1 of a machine, a sandbox for agents, and connects it to the worker that
// listens on socket. Programs do not inherit the connection. Process 1 gives up the rights over the
// network that it needs to bring lo up.
func Machine(socket string) (*os.File, error) {
	upLoopback()
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_NET_ADMIN, 0)
	if errno != 0 && errno != unix.ENOTSUP && errno != unix.EPERM { // with cgo, and without privileges, in tests
		return nil, fmt.Errorf("give up rights over the network: %w", errno)
	}
	conn, err := connect(socket)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(conn, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(conn), "worker"), nil
}
