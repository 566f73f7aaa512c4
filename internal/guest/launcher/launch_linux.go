package launcher

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// boxFiles holds the descriptors for a box, and its user. Missing descriptors are negative.
type boxFiles struct {
	slot, scratch int
	parent        int    // of a nested box
	owner         int    // of a box with Own: the user namespace that owns its network
	network       int    // the network namespace
	everybody     string // the map of ids of that user namespace, if it must be created
	uid           int    // the box's user in the cell
}

// launch starts the supervisor of a box.
func (r *recipe) launch(from boxFiles) error {
	parent, uid := from.parent, from.uid
	if r.sealed == nil {
		if err := r.seal(); err != nil {
			return err
		}
	}
	if asked.handled == 0 { // not earlier, because signals ignored now stay ignored
		asked.handled = handled()
	}
	asked.slot, asked.scratch, asked.parent = from.slot, from.scratch, parent
	asked.owner, asked.network = from.owner, from.network
	asked.everybodySize = copy(asked.everybody[:], from.everybody)
	asked.calls, asked.count, asked.apart = &r.sealed[0], len(r.sealed), 0
	first := boxFlags
	if parent >= 0 {
		// Two intermediate processes create a nested box. The first enters the parent's user namespace
		// and creates the box's inside it. There it has the box's identity and is unreachable. It
		// starts the second one in the parent's pid namespace, because a nested pid namespace can only
		// be created there.
		//
		// The parent's programs own the box's user namespace, so they may control any process of it
		// that they can see and that is dumpable. They do not see the first process, and all others are
		// children of an undumpable one. For a box with Own, the process with its identity is already
		// in that pid namespace: see enterParent.
		first, asked.apart = uintptr(syscall.SIGCHLD), r.identified
	}
	asked.own, asked.mapped = r.own, [2]int{-1, -1}
	if parent >= 0 && !r.own { // its user there is the user in its own box
		setIDs(asked.ids[:], boxUID)
	} else {
		setIDs(asked.ids[:], uid)
	}
	if parent < 0 {
		if err := become(uid); err != nil {
			return err
		}
	}
	if r.holds {
		if err := hold(); err != nil {
			return err
		}
	}
	syscall.ForkLock.Lock()
	beforeFork()
	n, errno := clone(first)
	afterFork()
	syscall.ForkLock.Unlock()
	var err error
	if r.holds {
		if n != 0 {
			err = holdIDs(int(n), uid)
		}
		letGo()
	}
	if parent < 0 {
		if err := become(os.Getuid()); err != nil {
			panic(err) // otherwise the wrong user would create the next box
		}
	}
	if n == 0 {
		return errno
	}
	return err
}

// hold makes the next process wait for letGo, reachable for a thread with its user.
func hold() error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	asked.mapped = ends
	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}

func letGo() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	for _, fd := range asked.mapped {
		_ = unix.Close(fd)
	}
}
