package launcher

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// boxFlags are the namespaces of a box, except two. The network namespace is the launcher's current
// one (see network). The cgroup namespace comes later, when the process is in its own group.
const boxFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
	uintptr(syscall.SIGCHLD)

// asked holds the launcher's parameters for the next supervisor, set before each fork. Missing
// descriptors are negative.
var asked struct {
	slot, scratch  int
	parent         int // the parent box
	owner, network int // see boxFiles
	own            bool
	mapped         [2]int // a pipe, closed when the maps of ids are written
	ids            [idMap]byte
	everybody      [maxIDs]byte // the map of ids of an intermediate user namespace, and its length
	everybodySize  int
	calls          *call // the first call in the box's set-up
	count          int
	apart          int    // number of calls before the intermediate processes: see launch
	handled        uint64 // signals with handlers in the launcher
}

// state is the memory of a supervisor. The launcher never touches it, so each supervisor has its
// own pages only where it writes.
var state struct {
	message [guest.MaxMessage]byte
	large   [guest.MaxRun]byte
	strings [guest.MaxStrings]uintptr
	control [128]byte
	iov     unix.Iovec
	header  unix.Msghdr
	program program
	status  unix.WaitStatus
	answer  [8]byte
	pipe    [2]int32
	path    [32]byte
}

var (
	byDefault [4]uint64 // the kernel's struct sigaction: the default
	noSignals uint64    // a set of signals
	loUp      struct {  // struct ifreq
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
)

func init() {
	state.iov.Base = &state.message[0]
	state.header.Iov, state.header.Iovlen = &state.iov, 1
	state.header.Control = &state.control[0]
	copy(loUp.name[:], "lo")
	loUp.flags = unix.IFF_UP | unix.IFF_RUNNING
}

// supervise is the main function of a box's process. It uses only its stack, the variables of this
// program, and the data in asked. Other memory may be missing: see excludeFromForks.
//
//go:nosplit
//go:noinline
//go:norace
func supervise() {
	// The launcher's handlers belong to a runtime that does not exist here. For process 1 of a pid
	// namespace, the kernel delivers signals from inside only to handlers.
	for i := uintptr(1); i <= 64; i++ {
		if asked.handled>>(i-1)&1 != 0 {
			_, _ = sys5(syscall.SYS_RT_SIGACTION, i, addr(&byDefault), 0, 8, 0)
		}
	}
	_, _ = sys5(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, addr(&noSignals), 0, 8, 0)
	_, _ = sys(syscall.SYS_DUP3, uintptr(asked.slot), guest.SlotFD, syscall.O_CLOEXEC)
	if asked.parent >= 0 {
		enterParent()
	} else if asked.mapped[0] >= 0 {
		_, _ = sys(syscall.SYS_CLOSE, uintptr(asked.mapped[1]), 0, 0)
		_, _ = sys(syscall.SYS_READ, uintptr(asked.mapped[0]), addr(&state.answer[0]), 1)
	}
	_, _ = sys(syscall.SYS_DUP3, uintptr(asked.scratch), scratchFD, syscall.O_CLOEXEC)
	_, _ = sys(unix.SYS_CLOSE_RANGE, 3, guest.SlotFD-1, 0)
	_, _ = sys(unix.SYS_CLOSE_RANGE, scratchFD+1, ^uintptr(0)>>32, 0)
	makeBox()
	serve()
}

// makeBox creates the box and reports it.
//
//go:nosplit
//go:norace
func makeBox() {
	made := 0
	if asked.parent >= 0 {
		makeCalls(0, asked.apart)
		made = asked.apart
		flags := boxFlags &^ unix.CLONE_NEWUSER
		if !asked.own { // otherwise it is already in that pid namespace and network
			flags |= unix.CLONE_NEWNET
			cloneAndLeave(uintptr(syscall.SIGCHLD))
		}
		cloneAndLeave(flags)
	}
	makeCalls(made, asked.count)
	state.answer[0] = guest.BoxReady
	if _, errno := sys(syscall.SYS_WRITE, guest.SlotFD, addr(&state.answer[0]), 1); errno != 0 {
		exit(127)
	}
}

// makeCalls makes a range of the calls. It reports a failure by the call's name.
//
//go:nosplit
//go:norace
//go:nocheckptr
func makeCalls(from, to int) {
	for i := from; i < to; i++ {
		c := (*call)(unsafe.Add(unsafe.Pointer(asked.calls), uintptr(i)*unsafe.Sizeof(call{})))
		_, errno := sys5(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4])
		if errno != 0 && !c.may {
			c.failure[1], c.failure[2] = byte(errno), byte(errno>>8)
			_, _ = sys(syscall.SYS_WRITE, guest.SlotFD, addr(&c.failure[0]), uintptr(len(c.failure)))
			exit(127)
		}
	}
}

// cloneAndLeave continues in a new process only.
//
//go:nosplit
//go:norace
func cloneAndLeave(flags uintptr) {
	if must(syscall.SYS_CLONE, flags, 0, 0) != 0 {
		exit(127)
	}
}

// must makes a call that is required for the box.
//
//go:nosplit
//go:norace
func must(nr, a, b, c uintptr) uintptr {
	n, errno := sys5(nr, a, b, c, 0, 0)
	if errno != 0 {
		state.answer = [8]byte{guest.BoxFailed, byte(errno), byte(errno >> 8), 0, 0}
		_, _ = sys(syscall.SYS_WRITE, guest.SlotFD, addr(&state.answer[0]), 5)
		exit(127)
	}
	return n
}

// serve handles the worker's messages on the slot until its end.
//
//go:nosplit
//go:norace
func serve() {
	for {
		state.iov.Len = guest.MaxMessage
		state.header.Controllen = uint64(len(state.control))
		n, errno := sys(syscall.SYS_RECVMSG, guest.SlotFD, addr(&state.header), unix.MSG_CMSG_CLOEXEC)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 || n == 0 {
			exit(127) // the worker does not need this box any more
		}
		switch state.message[0] {
		case guest.BoxEnter:
			if _, errno = sys(syscall.SYS_UNSHARE, unix.CLONE_NEWCGROUP, 0, 0); errno != 0 {
				exit(127)
			}
		case guest.BoxRun, guest.BoxRunFile:
			run(n)
		default:
			exit(127)
		}
	}
}

// run runs the program in a message of n bytes.
//
//go:nosplit
//go:norace
//go:nocheckptr
func run(n uintptr) {
	p := &state.program
	p.count = 0
	if state.header.Controllen > 16 { // the head of a control message
		p.count = int(state.header.Controllen-16) / 4
	}
	if p.count > guest.MaxFiles || p.count < 3 {
		exit(127)
	}
	for i := 0; i < p.count; i++ {
		p.files[i] = *(*int32)(unsafe.Pointer(&state.control[16+4*i]))
	}
	if state.message[0] == guest.BoxRunFile {
		p.count--
		parse(addr(&state.large[0]), readAll(uintptr(p.files[p.count])))
	} else {
		parse(addr(&state.message[0]), n)
	}
	p.report, p.failed, p.mixed = guest.SlotFD, guest.BoxNotBegun, true

	// Until now the kernel reaps children; this one's status is needed.
	_, _ = sys5(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), addr(&byDefault), 0, 8, 0)
	child, errno := sys5(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0)
	p.check(guest.StageFork, errno)
	if child == 0 {
		p.become()
	}
	for i := 0; i < p.count; i++ {
		_, _ = sys(syscall.SYS_CLOSE, uintptr(p.files[i]), 0, 0)
	}
	await(child)
}

// readAll reads fd into state.large, closes it, and returns the size.
//
//go:nosplit
//go:norace
func readAll(fd uintptr) (size uintptr) {
	for size < guest.MaxRun {
		n, errno := sys(syscall.SYS_READ, fd, addr(&state.large[0])+size, guest.MaxRun-size)
		if errno != 0 || n == 0 {
			break
		}
		size += n
	}
	_, _ = sys(syscall.SYS_CLOSE, fd, 0, 0)
	return size
}

// parse fills state.program from a message of this size: see guest.Run.Marshal.
//
//go:nosplit
//go:norace
//go:nocheckptr
func parse(message, size uintptr) {
	if size < guest.RunHead {
		exit(127)
	}
	b := unsafe.Slice((*byte)(unsafe.Add(nil, message)), size)
	paths, argv := int(*(*uint32)(unsafe.Pointer(&b[4]))), int(*(*uint32)(unsafe.Pointer(&b[8])))
	env, filter := int(*(*uint32)(unsafe.Pointer(&b[12]))), int(*(*uint32)(unsafe.Pointer(&b[16])))
	stack, files := *(*guest.StackLimit)(unsafe.Pointer(&b[20])), *(*uint64)(unsafe.Pointer(&b[24]))
	if argv < 1 || paths+argv+env+4 > guest.MaxStrings || guest.RunHead+filter >= len(b) {
		exit(127)
	}
	first := 1 + paths // the first of argv, after the directory and the paths
	at := findStrings(b, guest.RunHead+filter, 0, first+argv)
	state.strings[first+argv] = 0
	findStrings(b, at, first+argv+1, env)
	state.strings[first+argv+1+env] = 0

	p := &state.program
	p.limits[0] = limit{what: unix.RLIMIT_NOFILE, Rlimit: unix.Rlimit{Cur: files, Max: files}}
	p.limits[1] = stackLimit(stack)
	p.filter.Len, p.filter.At = uint16(filter/8), message+guest.RunHead
	p.dir, p.paths, p.tries = state.strings[0], addr(&state.strings[1]), paths
	p.argv, p.env = addr(&state.strings[first]), addr(&state.strings[first+argv+1])
}

// findStrings stores the addresses of n strings, the first of which starts at b[at], in
// state.strings from index to. It returns the start of the next string.
//
//go:nosplit
//go:norace
func findStrings(b []byte, at, to, n int) int {
	for i := 0; i < n; i++ {
		if at >= len(b) {
			exit(127)
		}
		state.strings[to+i] = addr(&b[at])
		for at < len(b) && b[at] != 0 {
			at++
		}
		at++
	}
	return at
}

// await waits for child, kills its remaining processes, waits for them, and reports the child's
// end.
//
//go:nosplit
//go:norace
func await(child uintptr) {
	for {
		n, errno := sys5(syscall.SYS_WAIT4, ^uintptr(0), addr(&state.status), 0, 0, 0)
		if errno == syscall.ECHILD {
			break
		}
		if errno == 0 && n == child && state.status&0xff != 0x7f { // a traced program stops, too
			s := state.status
			state.answer = [8]byte{guest.BoxEnded, byte(s), byte(s >> 8), byte(s >> 16), byte(s >> 24)}
			_, _ = sys(syscall.SYS_KILL, ^uintptr(0), uintptr(syscall.SIGKILL), 0)
		}
	}
	_, _ = sys(syscall.SYS_WRITE, guest.SlotFD, addr(&state.answer[0]), 5)
}
