package launcher

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// boxFiles are descriptors of what a box is made of, and its user. What there is not is negative.
type boxFiles struct {
	slot, scratch int
	parent        int    // of a nested box
	owner         int    // of a box that is Own: the user namespace that owns its network
	network       int    // of one
	everybody     string // the ids of that user namespace, if it is to be made
	uid           int    // the user of the box, to the cell
}

// launch starts the supervisor of a box.
func (r *recipe) launch(from boxFiles) error {
	parent, uid := from.parent, from.uid
	if r.sealed == nil {
		if err := r.seal(); err != nil {
			return err
		}
	}
	if asked.handled == 0 { // not before: what is ignored by now stays so
		asked.handled = handled()
	}
	asked.slot, asked.scratch, asked.parent = from.slot, from.scratch, parent
	asked.owner, asked.network = from.owner, from.network
	asked.everybodySize = copy(asked.everybody[:], from.everybody)
	asked.calls, asked.count, asked.apart = &r.sealed[0], len(r.sealed), 0
	first := boxFlags
	if parent >= 0 {
		// The box is made by processes in between. The first goes into the user namespace
		// of the parent, makes that of the box, in which it has the box's identity and
		// cannot be reached, and has the second start in the pid namespace of the parent:
		// only there may one be made inside it. What runs in the parent owns the box's
		// user namespace, so it may do anything to a process of that which it sees and
		// which is dumpable; it does not see the first, and all that it sees are children
		// of one that was not dumpable any more. Of a box that is Own, the one with its
		// identity is in that pid namespace already: see enterParent.
		first, asked.apart = uintptr(syscall.SIGCHLD), r.identified
	}
	asked.own, asked.mapped = r.own, [2]int{-1, -1}
	if parent >= 0 && !r.own { // to whom the user is the one that it is in its own box
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
			panic(err) // the next box would be made by somebody else
		}
	}
	if n == 0 {
		return errno
	}
	return err
}

// hold has the next process wait for letGo, and be reachable for who acts as its user.
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
