package launcher

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// limitSignals lowers the limits that the box's program inherits. Those of the
// launcher stay: the kernel holds all boxes of a cell together against them.
func (r *recipe) limitSignals(s guest.Share) {
	for what, n := range map[uintptr]int64{unix.RLIMIT_SIGPENDING: s.Signals, unix.RLIMIT_MEMLOCK: guest.Locked} {
		limit := binary.NativeEndian.AppendUint64(nil, uint64(n)) // struct rlimit: soft and hard
		limit = binary.NativeEndian.AppendUint64(limit, uint64(n))
		r.do("limit", unix.SYS_PRLIMIT64, 0, what, r.data(limit), 0)
	}
}

// limitZygote lowers the limits that all children of a zygote inherit.
func limitZygote(pid int, s guest.Share) error {
	for what, n := range map[int]int64{unix.RLIMIT_SIGPENDING: s.Signals, unix.RLIMIT_MEMLOCK: guest.Locked} {
		if err := unix.Prlimit(pid, what, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}, nil); err != nil {
			return fmt.Errorf("limit a zygote: %w", err)
		}
	}
	return nil
}

// LimitWatches bounds inotify in the user namespace of a container, of which pid
// is a process, from outside: its own guest has no right to, and would need a
// /proc/sys that can be written. It takes root, and the host's /proc.
//
// The bound holds for each user in that namespace. One who makes a namespace in it answers
// there for all in his own, and each box of a cell is made by a user of its own.
//
// Only a process with one thread may enter a user namespace, and a program in Go
// has several from its start. So a child does, which calls nothing but the kernel.
func LimitWatches(pid int, s guest.Share) error {
	space, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return err
	}
	defer space.Close()
	settings := []setting{newSetting(maxInstances, s.Instances), newSetting(maxWatches, s.Watches)}
	child, err := enterAndWrite(int(space.Fd()), settings)
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(child, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	if err == nil && status.ExitStatus() != 0 {
		err = unix.Errno(status.ExitStatus())
	}
	if err != nil {
		return fmt.Errorf("set limits of a user namespace: %w", err)
	}
	return nil
}

// setting is a file and what to write to it, for a process without a runtime.
type setting struct {
	file *byte
	text []byte
}

func newSetting(file string, n int64) setting {
	path, _ := unix.BytePtrFromString(file)
	return setting{path, strconv.AppendInt(nil, n, 10)}
}

// enterAndWrite forks a process that enters a user namespace and writes the
// settings there. Its exit status is 0 or an errno.
//
//go:noinline
//go:norace
func enterAndWrite(space int, settings []setting) (pid int, err error) {
	n, errno := forkChild()
	if n == 0 && errno == 0 {
		writeIn(uintptr(space), settings)
	}
	runtime.KeepAlive(settings)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// writeIn is that process.
//
//go:nosplit
//go:norace
func writeIn(space uintptr, settings []setting) {
	_, errno := sys(unix.SYS_SETNS, space, unix.CLONE_NEWUSER, 0)
	for i := 0; i < len(settings) && errno == 0; i++ {
		var fd uintptr
		if fd, errno = sys(syscall.SYS_OPENAT, atCWD, addr(settings[i].file), unix.O_WRONLY|unix.O_CLOEXEC); errno == 0 {
			_, errno = sys(syscall.SYS_WRITE, fd, addr(&settings[i].text[0]), uintptr(len(settings[i].text)))
		}
	}
	exit(uintptr(errno))
}

// Files of the kernel that hold limits of the user namespace of whoever opens them.
const (
	maxInstances = "/proc/sys/user/max_inotify_instances"
	maxWatches   = "/proc/sys/user/max_inotify_watches"
)
