package launcher

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
)

// boxFlags are the namespaces of a box, but for two: that of the network is the
// launcher's of the moment, see network; that of control groups comes later, when
// the process is in its own group.
const boxFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
	uintptr(syscall.SIGCHLD)

// room is the memory of a supervisor. It is the launcher's, and all but the order
// never touched there: each supervisor gets pages of its own when it writes to them.
var room struct {
	message [guest.MaxMessage]byte
	large   [guest.MaxRun]byte
	strings [guest.MaxStrings]uintptr
	control [128]byte
	files   [guest.MaxFiles]int32
	iov     unix.Iovec
	header  unix.Msghdr
	action  [4]uint64 // struct sigaction of the kernel: all zero is the default
	filter  struct {  // struct sock_fprog, without a pointer: a write barrier is a call
		Len uint16
		At  uintptr
	}
	limit   unix.Rlimit
	caps    [2]unix.CapUserData
	capHead unix.CapUserHeader
	status  unix.WaitStatus
	answer  [8]byte
	pipe    [2]int32
	path    [32]byte
	lo      struct { // struct ifreq
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}

	order struct { // of the launcher, before each fork
		ids                   [idMap]byte // what to write to the maps of ids
		everybody             [maxIDs]byte
		everybodys            int // the length of that
		slot, scratch, parent int
		owner, network        int // see origin
		ops                   *op
		count                 int
		before                int      // so many of the ops come before the processes in between, see launch
		own                   bool     // a nested box is not its parent's user's
		held                  [2]int32 // a pipe that is closed when the maps of ids are written; {-1, -1}: none
		handled               uint64   // signals that the launcher has handlers for
		blocked               uint64   // none
	}
}

// ofProcess are files of a process whose number follows the first six letters: in which the
// ids of its user namespace are said, and from firstSpace on its namespaces of users and of
// the network. Each ends with a NUL.
var ofProcess = [5][18]byte{
	{'/', 'p', 'r', 'o', 'c', '/', '/', 's', 'e', 't', 'g', 'r', 'o', 'u', 'p', 's'},
	{'/', 'p', 'r', 'o', 'c', '/', '/', 'u', 'i', 'd', '_', 'm', 'a', 'p'},
	{'/', 'p', 'r', 'o', 'c', '/', '/', 'g', 'i', 'd', '_', 'm', 'a', 'p'},
	{'/', 'p', 'r', 'o', 'c', '/', '/', 'n', 's', '/', 'u', 's', 'e', 'r'},
	{'/', 'p', 'r', 'o', 'c', '/', '/', 'n', 's', '/', 'n', 'e', 't'},
}

const firstSpace = 3

var denied4 = [4]byte{'d', 'e', 'n', 'y'}

func init() {
	room.iov.Base = &room.message[0]
	room.header.Iov, room.header.Iovlen = &room.iov, 1
	room.header.Control = &room.control[0]
	room.capHead.Version = unix.LINUX_CAPABILITY_VERSION_3
	copy(room.lo.name[:], "lo")
	room.lo.flags = unix.IFF_UP | unix.IFF_RUNNING
}

// supervise is the process of a box from its birth to its end. It runs nothing
// but system calls (see fork), it is one function for the same reason, and it
// uses no memory but its stack, room, and what room refers to: nothing else is
// certain to be there. See solitude.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func supervise() {
	var (
		n, a0           uintptr
		errno, denied   syscall.Errno
		i, count, files int
		end             int
		o               *op
		b               []byte
		at              int
		stage           guest.Stage
		paths, argv     int
		env, filter     int
		child, open     uintptr
		high            uintptr
		between         bool
	)
	// The launcher's handlers are code of a runtime that is not here. Of process 1
	// of a pid namespace, signals from inside only reach handlers.
	for i = 1; i <= 64; i++ {
		if room.order.handled>>uint(i-1)&1 != 0 {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(i), uintptr(unsafe.Pointer(&room.action)), 0, 8, 0, 0)
		}
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&room.order.blocked)), 0, 8, 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(room.order.slot), slotFD, syscall.O_CLOEXEC)
	if room.order.parent >= 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SETNS, uintptr(room.order.parent), unix.CLONE_NEWUSER|unix.CLONE_NEWPID, 0)
		if errno != 0 {
			goto unborn
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETRESGID, boxUID, boxUID, boxUID); errno != 0 {
			goto unborn
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, boxUID, boxUID, boxUID); errno != 0 {
			goto unborn
		}
		if room.order.own {
			goto own
		}
		_, _, errno = syscall.RawSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0)
		if errno != 0 {
			goto unborn
		}
	} else if room.order.held[0] >= 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(room.order.held[1]), 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_READ, uintptr(room.order.held[0]), uintptr(unsafe.Pointer(&room.answer[0])), 1)
	}

identified:
	// Descriptors: the slot, the scratch mount and the three standard ones.
	_, _, _ = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(room.order.scratch), scratchFD, syscall.O_CLOEXEC)
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, slotFD-1, 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, scratchFD+1, ^uintptr(0)>>32, 0)

	i, end = 0, room.order.before
	if end == 0 {
		end = room.order.count
	}
make:
	for ; i < end; i++ {
		o = (*op)(unsafe.Add(unsafe.Pointer(room.order.ops), uintptr(i)*unsafe.Sizeof(*o)))
		a0 = o.args[0]
		if o.last {
			a0 = n
		}
		n, _, errno = syscall.RawSyscall6(o.nr, a0, o.args[1], o.args[2], o.args[3], o.args[4], 0)
		if errno != 0 && !o.may {
			o.text[1], o.text[2] = byte(errno), byte(errno>>8)
			_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, slotFD, uintptr(unsafe.Pointer(&o.text[0])), uintptr(len(o.text)))
			goto exit
		}
	}
	if end < room.order.count {
		high = boxFlags &^ unix.CLONE_NEWUSER
		if !room.order.own { // else it is in that pid namespace, and in its network
			high |= unix.CLONE_NEWNET
			n, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
			if errno != 0 {
				goto unborn
			}
			if n != 0 {
				goto exit
			}
		}
		n, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, high, 0, 0, 0, 0, 0)
		if errno != 0 {
			goto unborn
		}
		if n != 0 {
			goto exit
		}
		end = room.order.count
		goto make
	}
	room.answer[0] = guest.BoxReady
	_, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, slotFD, uintptr(unsafe.Pointer(&room.answer[0])), 1)
	if errno != 0 {
		goto exit
	}

serve:
	room.iov.Len = guest.MaxMessage
	room.header.Controllen = uint64(len(room.control))
	n, _, errno = syscall.RawSyscall(syscall.SYS_RECVMSG, slotFD, uintptr(unsafe.Pointer(&room.header)), unix.MSG_CMSG_CLOEXEC)
	if errno == syscall.EINTR {
		goto serve
	}
	if errno != 0 || n == 0 {
		goto exit // the worker has no more use for this box
	}
	if room.message[0] == guest.BoxEnter {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_UNSHARE, unix.CLONE_NEWCGROUP, 0, 0); errno != 0 {
			goto exit
		}
		goto serve
	}
	files = 0
	if room.header.Controllen > 16 {
		files = int(room.header.Controllen-16) / 4
	}
	if files > guest.MaxFiles || files < 3 || (room.message[0] != guest.BoxRun && room.message[0] != guest.BoxRunFile) {
		goto exit
	}
	for i = 0; i < files; i++ {
		room.files[i] = *(*int32)(unsafe.Pointer(&room.control[16+4*i]))
	}
	b = room.message[:n]
	if room.message[0] == guest.BoxRunFile {
		files--
		for count = 0; count < guest.MaxRun; count += int(n) {
			n, _, errno = syscall.RawSyscall(syscall.SYS_READ, uintptr(room.files[files]),
				uintptr(unsafe.Pointer(&room.large[count])), uintptr(guest.MaxRun-count))
			if errno != 0 || n == 0 {
				break
			}
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(room.files[files]), 0, 0)
		b = room.large[:count]
	}
	// The message: see Run.Marshal.
	if len(b) < guest.RunHead {
		goto exit
	}
	paths, argv = int(*(*uint32)(unsafe.Pointer(&b[4]))), int(*(*uint32)(unsafe.Pointer(&b[8])))
	env, filter = int(*(*uint32)(unsafe.Pointer(&b[12]))), int(*(*uint32)(unsafe.Pointer(&b[16])))
	open = uintptr(*(*uint64)(unsafe.Pointer(&b[24])))
	if argv < 1 || paths+argv+env+4 > guest.MaxStrings || guest.RunHead+filter >= len(b) {
		goto exit
	}
	room.filter.Len = uint16(filter / 8)
	room.filter.At = uintptr(unsafe.Pointer(&b[guest.RunHead]))
	at, count = guest.RunHead+filter, 0
	for i = 0; i < 1+paths+argv+env; i++ { // dir, paths; argv, nil; env, nil
		if i == 1+paths+argv {
			room.strings[count] = 0
			count++
		}
		if at >= len(b) {
			goto exit
		}
		room.strings[count] = uintptr(unsafe.Pointer(&b[at]))
		count++
		for at < len(b) && b[at] != 0 {
			at++
		}
		at++
	}
	if env == 0 {
		room.strings[count] = 0
		count++
	}
	room.strings[count] = 0

	// Until now children are reaped by the kernel; this one has a status.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&room.action)), 0, 8, 0, 0)
	child, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	stage = guest.StageFork
	if errno != 0 {
		goto fail
	}
	if child == 0 {
		goto program
	}
	for i = 0; i < files; i++ {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(room.files[i]), 0, 0)
	}
	for {
		n, _, errno = syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&room.status)), 0, 0, 0, 0)
		if errno == syscall.ECHILD {
			break
		}
		if errno == 0 && n == child && room.status&0xff != 0x7f { // a program that asks to be traced stops, too
			room.answer = [8]byte{guest.BoxEnded, byte(room.status), byte(room.status >> 8), byte(room.status >> 16), byte(room.status >> 24)}
			_, _, _ = syscall.RawSyscall(syscall.SYS_KILL, ^uintptr(0), uintptr(syscall.SIGKILL), 0)
		}
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, slotFD, uintptr(unsafe.Pointer(&room.answer[0])), 5)
	goto serve

program:
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	stage = guest.StageFiles
	for i = 0; i < files; i++ { // first out of the way of their targets
		high, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(room.files[i]), unix.F_DUPFD_CLOEXEC, 2*guest.MaxFiles)
		if errno != 0 {
			goto fail
		}
		room.files[i] = int32(high)
	}
	for i = 0; i < files; i++ {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(room.files[i]), uintptr(i), 0); errno != 0 {
			goto fail
		}
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(files), ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	if errno != 0 {
		goto fail
	}
	room.limit.Cur, room.limit.Max = uint64(open), uint64(open)
	_, _, errno = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&room.limit)), 0, 0, 0)
	if errno != 0 {
		goto fail
	}
	stage = guest.StageIdentity
	// Here and not in the supervisor: that of an interpreter's box runs nothing, and it is a call for each.
	for i = 0; i <= unix.CAP_LAST_CAP; i++ {
		_, _, errno = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(i), 0)
		if errno != 0 && errno != syscall.EINVAL { // an older kernel has fewer
			goto fail
		}
	}
	_, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&room.capHead)), uintptr(unsafe.Pointer(&room.caps)), 0)
	if errno != 0 {
		goto fail
	}
	stage = guest.StageDir
	if _, _, errno = syscall.RawSyscall(syscall.SYS_CHDIR, room.strings[0], 0, 0); errno != 0 {
		goto fail
	}
	stage = guest.StageFilter
	if room.filter.Len > 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&room.filter)))
		if errno != 0 {
			goto fail
		}
	}
	stage = guest.StageExec
	errno = syscall.ENOENT
	for i = 1; i <= paths; i++ {
		_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, room.strings[i],
			uintptr(unsafe.Pointer(&room.strings[1+paths])), uintptr(unsafe.Pointer(&room.strings[2+paths+argv])))
		if errno == syscall.EACCES {
			denied = errno
		}
		if errno != syscall.ENOENT && errno != syscall.ENOTDIR && errno != syscall.EACCES {
			goto fail
		}
	}
	if denied != 0 {
		errno = denied
	}

	goto fail

own:
	// The box is in a user namespace that owns its network, which is made now if there is none.
	between = room.order.network < 0
	if between {
		goto apart
	}
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETNS, uintptr(room.order.owner), unix.CLONE_NEWUSER, 0); errno != 0 {
		goto unborn
	}
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETNS, uintptr(room.order.network), unix.CLONE_NEWNET, 0); errno != 0 {
		goto unborn
	}
	if room.order.everybodys > 0 {
		n, _, errno = syscall.RawSyscall(syscall.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if errno != 0 {
			goto unborn
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_IOCTL, n, unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&room.lo))); errno != 0 {
			goto unborn
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, n, 0, 0)
	}

apart: // the ids of a user namespace are not all its owner's, so they are written by who has rights over the one around it
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0)
	_, _, errno = syscall.RawSyscall(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&room.pipe[0])), unix.O_CLOEXEC, 0)
	if errno != 0 {
		goto unborn
	}
	high, files = unix.CLONE_NEWUSER|uintptr(syscall.SIGCHLD), firstSpace
	if between {
		high, files = high|unix.CLONE_NEWNET, len(ofProcess)
	}
	n, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, high, 0, 0, 0, 0, 0)
	if errno != 0 {
		goto unborn
	}
	if n == 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(room.pipe[1]), 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_READ, uintptr(room.pipe[0]), uintptr(unsafe.Pointer(&room.answer[0])), 1) // the other needs this one no more
		if between {
			goto exit
		}
		goto identified
	}
	for i = 0; i < files; i++ {
		// "/proc/", the number, its digits from the last, and the name.
		count, at = 0, int(n)
		for end = at; end > 0; end /= 10 {
			count++
		}
		for end = 0; end < 6; end++ {
			room.path[end] = ofProcess[i][end]
		}
		for end = 5 + count; end > 5; end-- {
			room.path[end] = byte('0' + at%10)
			at /= 10
		}
		for end = 6; end < len(ofProcess[i]); end++ {
			room.path[count+end] = ofProcess[i][end]
		}
		open = unix.O_WRONLY | unix.O_CLOEXEC
		if i >= firstSpace {
			open = unix.O_RDONLY | unix.O_CLOEXEC
		}
		high, _, errno = syscall.RawSyscall6(syscall.SYS_OPENAT, atCWD, uintptr(unsafe.Pointer(&room.path[0])), open, 0, 0, 0)
		if errno != 0 {
			goto unborn
		}
		switch {
		case i == firstSpace:
			room.order.owner = int(high)
		case i > firstSpace:
			room.order.network = int(high)
		case i == 0:
			_, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, high, uintptr(unsafe.Pointer(&denied4[0])), 4)
		case between:
			_, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, high, uintptr(unsafe.Pointer(&room.order.everybody[0])), uintptr(room.order.everybodys))
		default:
			_, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, high, uintptr(unsafe.Pointer(&room.order.ids[0])), idMap)
		}
		if errno != 0 {
			goto unborn
		}
	}
	if between {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(room.pipe[1]), 0, 0)
		goto own
	}
	goto exit

fail:
	room.answer = [8]byte{guest.BoxNotBegun, byte(stage), byte(errno), byte(errno >> 8), byte(errno >> 16), byte(errno >> 24)}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, slotFD, uintptr(unsafe.Pointer(&room.answer[0])), 6)
	goto exit
unborn:
	room.answer = [8]byte{guest.BoxFailed, byte(errno), byte(errno >> 8), 0, 0}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, slotFD, uintptr(unsafe.Pointer(&room.answer[0])), 5)
exit:
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 127, 0, 0)
	}
}
