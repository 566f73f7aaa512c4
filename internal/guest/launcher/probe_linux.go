package launcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// Probe creates a nearly empty box as a cell does, and returns why this host cannot. It must run
// like a cell's launcher: in a user namespace, as one of its unprivileged users, with CAP_SYS_ADMIN
// and CAP_NET_ADMIN.
func Probe() error {
	runtime.LockOSThread() // the thread cannot be reused
	if err := network(-1); err != nil {
		return err
	}
	r := &recipe{}
	r.identity()
	r.mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	r.mount("tmpfs", "/proc", "tmpfs", inert, "size=64k")
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	err = r.launch(boxFiles{slot: pair[1], scratch: pair[1], parent: -1, owner: -1, network: -1, uid: os.Getuid()})
	_ = unix.Close(pair[1])
	if err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	var b [256]byte
	n, err := unix.Read(pair[0], b[:])
	switch {
	case err != nil:
		return err
	case n == 1 && b[0] == guest.BoxReady:
		return nil
	case n > 5 && b[0] == guest.BoxFailed:
		return fmt.Errorf("%s: %w", b[5:n], unix.Errno(binary.LittleEndian.Uint32(b[1:])))
	}
	return errors.New("a box ended while it was made")
}
