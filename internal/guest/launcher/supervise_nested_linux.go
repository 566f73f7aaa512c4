package launcher

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// enterParent moves the process into the parent box's user namespace, and its children into the
// parent's pid namespace. It returns in the user namespace of its own box.
//
//go:nosplit
//go:norace
func enterParent() {
	must(unix.SYS_SETNS, uintptr(asked.parent), unix.CLONE_NEWUSER|unix.CLONE_NEWPID, 0)
	must(syscall.SYS_SETRESGID, boxUID, boxUID, boxUID)
	must(syscall.SYS_SETRESUID, boxUID, boxUID, boxUID)
	if !asked.own {
		must(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0)
		return
	}
	// The box is in a user namespace that owns its network. Create both if missing.
	fresh := asked.network < 0
	if fresh {
		makeNetwork()
	}
	must(unix.SYS_SETNS, uintptr(asked.owner), unix.CLONE_NEWUSER, 0)
	must(unix.SYS_SETNS, uintptr(asked.network), unix.CLONE_NEWNET, 0)
	if fresh {
		fd := must(syscall.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		must(syscall.SYS_IOCTL, fd, unix.SIOCSIFFLAGS, addr(&loUp))
		_, _ = sys(syscall.SYS_CLOSE, fd, 0, 0)
	}
	if child := cloneUserNamespace(0); child != 0 {
		writeMaps(child, addr(&asked.ids[0]), idMap)
		exit(127)
	}
}

// makeNetwork creates a network namespace and the user namespace that owns it, with a temporary
// process that lives until both are open.
//
//go:nosplit
//go:norace
func makeNetwork() {
	child := cloneUserNamespace(unix.CLONE_NEWNET)
	if child == 0 {
		exit(127)
	}
	writeMaps(child, addr(&asked.everybody[0]), uintptr(asked.everybodySize))
	asked.owner = int(openOf(child, &userSpace, unix.O_RDONLY))
	asked.network = int(openOf(child, &netSpace, unix.O_RDONLY))
	_, _ = sys(syscall.SYS_CLOSE, uintptr(state.pipe[1]), 0, 0)
}

// cloneUserNamespace clones a process in its own user namespace, plus others by flags. It returns 0
// there after this process has closed its end of state.pipe or ended. The namespace maps ids of
// several owners, so a process with rights over the parent namespace must write the maps.
//
//go:nosplit
//go:norace
func cloneUserNamespace(flags uintptr) (child uintptr) {
	_, _ = sys(syscall.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0) // otherwise the files of that process belong to root
	must(unix.SYS_PIPE2, addr(&state.pipe[0]), unix.O_CLOEXEC, 0)
	child = must(syscall.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(syscall.SIGCHLD)|flags, 0, 0)
	if child == 0 {
		_, _ = sys(syscall.SYS_CLOSE, uintptr(state.pipe[1]), 0, 0)
		_, _ = sys(syscall.SYS_READ, uintptr(state.pipe[0]), addr(&state.answer[0]), 1)
	}
	return child
}

// writeMaps writes the maps of ids of a process's user namespace.
//
//go:nosplit
//go:norace
func writeMaps(pid, ids, size uintptr) {
	must(syscall.SYS_WRITE, openOf(pid, &setGroups, unix.O_WRONLY), addr(&deny), uintptr(len(deny)))
	must(syscall.SYS_WRITE, openOf(pid, &userMap, unix.O_WRONLY), ids, size)
	must(syscall.SYS_WRITE, openOf(pid, &groupMap, unix.O_WRONLY), ids, size)
}

// Names of a process's files, and the text for setgroups. Strings end with a NUL.
var (
	setGroups = [12]byte{'/', 's', 'e', 't', 'g', 'r', 'o', 'u', 'p', 's'}
	userMap   = [12]byte{'/', 'u', 'i', 'd', '_', 'm', 'a', 'p'}
	groupMap  = [12]byte{'/', 'g', 'i', 'd', '_', 'm', 'a', 'p'}
	userSpace = [12]byte{'/', 'n', 's', '/', 'u', 's', 'e', 'r'}
	netSpace  = [12]byte{'/', 'n', 's', '/', 'n', 'e', 't'}
	proc      = [6]byte{'/', 'p', 'r', 'o', 'c', '/'}
	deny      = [4]byte{'d', 'e', 'n', 'y'}
)

// openOf opens /proc/pid/name.
//
//go:nosplit
//go:norace
func openOf(pid uintptr, name *[12]byte, flags uintptr) uintptr {
	at := 0
	for ; at < len(proc); at++ {
		state.path[at] = proc[at]
	}
	unit := uintptr(1)
	for pid/unit >= 10 {
		unit *= 10
	}
	for ; unit > 0; unit /= 10 {
		state.path[at] = byte('0' + pid/unit%10)
		at++
	}
	for i := range name {
		state.path[at+i] = name[i]
	}
	return must(syscall.SYS_OPENAT, atCWD, addr(&state.path[0]), flags|unix.O_CLOEXEC)
}
