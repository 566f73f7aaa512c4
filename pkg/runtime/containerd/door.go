package containerd

import (
	"fmt"
	"os"
	"time"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/packet"
)

// Everything that belongs to a job begins here, whatever kind of program it is and
// however its process came about: it waits, in the control group of its place, for
// a word that this file alone says. TestOneDoor holds the rest of the package to it.

// admit has a process that waits become p, or start it: word tells it to. The
// process must be in the place's control group, by the kernel's word of this
// moment: a program outside of it would have no limits, while its record said that
// they were applied.
func (s *place) admit(pid int, p *program, word func() error) error {
	if !s.foreign { // its kernel has threads of its own
		if err := pin(pid, p); err != nil {
			return err
		}
	}
	in, err := s.group.Has(pid)
	if err != nil {
		return fmt.Errorf("admit the program: %w", err)
	}
	if !in {
		return fmt.Errorf("admit the program: process %d has ended, or is not in the control group of its job", pid)
	}
	return word()
}

// admitGate opens the gate at which a process waits.
func (s *place) admitGate(pid int, p *program, g *gate) error {
	return s.admit(pid, p, func() error {
		_, err := g.conn.Write([]byte{guest.GateGo})
		return err
	})
}

// admitRun sends a program to the process at the other end of to, with its files,
// and returns when that was.
func (s *place) admitRun(pid int, p *program, to *packet.Conn, argv []string, files []*os.File, filter []byte) (began time.Time, err error) {
	run := guest.Run{Argv: argv, Env: p.env, Dir: p.dir, OpenFiles: uint64(p.limits.OpenFiles), Filter: filter}
	err = s.admit(pid, p, func() error {
		began, err = send(to, &run, files, s.scratch.uid+programUID)
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
		f, err := contentFile("run", message, uid)
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
