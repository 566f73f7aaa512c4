package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/packet"
)

// Everything that belongs to a job begins here, whatever kind of program it is and
// however its process came about: it waits, in the control group of its place, for
// a word that this file alone says. TestOneDoor holds the rest of the tree to it.

// admit has a process that waits become p, or start it: word tells it to. The
// process must be in the place's control group, by the kernel's word of this
// moment: a program outside of it would have no limits, while its record said that
// they were applied.
func (s *Place) admit(pid int, p *Program, word func() error) error {
	if !s.Foreign { // its kernel has threads of its own
		if err := pin(pid, p); err != nil {
			return err
		}
	}
	in, err := s.Group.Has(pid)
	if err != nil {
		return fmt.Errorf("admit the program: %w", err)
	}
	if !in {
		return fmt.Errorf("admit the program: process %d has ended, or is not in the control group of its job", pid)
	}
	return word()
}

// AdmitGate opens the gate at which a process waits.
func (s *Place) AdmitGate(pid int, p *Program, g *Gate) error {
	return s.admit(pid, p, func() error {
		_, err := g.Conn.Write([]byte{guest.GateGo})
		return err
	})
}

// StackOf returns the stack limit of a program under a policy.
func StackOf(p *policy.Policy) guest.StackLimit {
	return guest.NewStackLimit(int64(cmp.Or(p.MainStack, policy.DefaultStack)), p.Stack > 0)
}

// AdmitRun sends a program to the process at the other end of to, with its files,
// and returns when that was.
func (s *Place) AdmitRun(pid int, p *Program, to *packet.Conn, argv []string, files []*os.File, filter []byte) (began time.Time, err error) {
	run := guest.Run{Argv: argv, Env: p.Env, Dir: p.Dir, OpenFiles: uint64(p.Limits.OpenFiles), Stack: StackOf(p.Limits), Filter: filter}
	err = s.admit(pid, p, func() error {
		began, err = send(to, &run, files, s.Scratch.UID+ProgramUID)
		return err
	})
	return began, err
}

// send sends a program to run, and returns when that was.
func send(to *packet.Conn, r *guest.Run, files []*os.File, uid int) (time.Time, error) {
	message, err := r.Marshal()
	if err != nil {
		return time.Time{}, err
	}
	fds := make([]int, 0, len(files)+1)
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	if len(message) > guest.MaxMessage {
		f, err := ContentFile("run", message, uid)
		if err != nil {
			return time.Time{}, err
		}
		defer f.Close()
		message, fds = []byte{guest.BoxRunFile}, append(fds, int(f.Fd()))
	}
	started := time.Now()
	if err := to.Send(message, fds...); err != nil {
		return time.Time{}, fmt.Errorf("start the program: %w", err)
	}
	return started, nil
}
