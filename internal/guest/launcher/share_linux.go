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

// limitSignals lowers the limits of the box's program. The launcher keeps its own, because the
// kernel counts all boxes of a cell against them.
func (r *recipe) limitSignals(s guest.Share) {
	for what, n := range map[uintptr]int64{unix.RLIMIT_SIGPENDING: s.Signals, unix.RLIMIT_MEMLOCK: guest.Locked} {
		limit := binary.NativeEndian.AppendUint64(nil, uint64(n)) // struct rlimit: soft and hard
		limit = binary.NativeEndian.AppendUint64(limit, uint64(n))
		r.do("limit", unix.SYS_PRLIMIT64, 0, what, r.data(limit), 0)
	}
}

// limitZygote lowers the limits of all children of a zygote.
func limitZygote(pid int, s guest.Share) error {
	for what, n := range map[int]int64{unix.RLIMIT_SIGPENDING: s.Signals, unix.RLIMIT_MEMLOCK: guest.Locked} {
		if err := unix.Prlimit(pid, what, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}, nil); err != nil {
			return fmt.Errorf("limit a zygote: %w", err)
		}
	}
	return nil
}

// LimitWatches limits inotify from outside in the user namespace of a container with process pid.
// The container's guest has no right to do so and no writable /proc/sys. It requires root and the
// host's /proc.
//
// The limit applies to each user in this namespace. A user who creates a nested namespace is
// charged for all users in it, and each box of a cell has its own user.
//
// Only a process with a single thread may enter a user namespace, and Go programs have several. So
// a child without a runtime does it.
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

// setting is a file and its new content, for a process without a runtime.
type setting struct {
	file *byte
	text []byte
}

func newSetting(file string, n int64) setting {
	path, _ := unix.BytePtrFromString(file)
	return setting{path, strconv.AppendInt(nil, n, 10)}
}

// enterAndWrite forks a process that enters a user namespace and writes the settings there. Its
// exit status is 0 or an errno.
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

// writeIn is the main function of this process.
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

// Kernel files with limits of the opener's user namespace.
const (
	maxInstances = "/proc/sys/user/max_inotify_instances"
	maxWatches   = "/proc/sys/user/max_inotify_watches"
)
