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

// Every program of a job starts here, regardless of its kind and of how its process was created.
// The process waits in the control group of its place for a message that only this file sends.
// TestOneDoor checks the rest of the tree.

// admit lets a waiting process become p, or start it, by calling word. The kernel must currently
// list the process in the place's control group. Otherwise the program would have no limits,
// although its record claimed them.
func (s *Place) admit(pid int, p *Program, word func() error) error {
	if !s.Foreign { // its kernel has its own threads
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

// AdmitGate opens the gate for a waiting process.
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

// AdmitRun sends a program and its files to the process at the other end of to, and returns the
// time.
func (s *Place) AdmitRun(pid int, p *Program, to *packet.Conn, argv []string, files []*os.File, filter []byte) (began time.Time, err error) {
	run := guest.Run{Argv: argv, Env: p.Env, Dir: p.Dir, OpenFiles: uint64(p.Limits.OpenFiles), Stack: StackOf(p.Limits), Filter: filter}
	err = s.admit(pid, p, func() error {
		began, err = send(to, &run, files, s.Scratch.UID+ProgramUID)
		return err
	})
	return began, err
}

// send sends a program to run, and returns the time.
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
