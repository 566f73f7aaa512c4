package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/process"
)

// Serves implements sandbox.Box.
func (s *slot) Serves(asked map[string]string) bool { return s.python != nil && !startsAfresh(asked) }

// Begin implements sandbox.Box.
func (s *slot) Begin(ctx context.Context, p *program, files []*os.File) (time.Time, error) {
	filter, err := s.rt.filters.of(p.limits, s.rt.filter)
	if err != nil {
		return time.Time{}, err
	}
	if p.python && s.Serves(p.asked) {
		i := s.python
		s.python = nil
		defer i.conn.Close()
		return s.admitRun(i.pid, p, i.conn, p.argv, files, filter)
	}
	if err := s.dismiss(ctx); err != nil {
		return time.Time{}, err
	}
	start := guest.Start{Argv: p.argv, Env: p.env, Dir: p.dir, UID: programUID, GID: programGID, Filter: filter}
	if s.foreign {
		start.OpenFiles, start.Processes = uint64(p.limits.OpenFiles), uint64(max(p.limits.Processes-1, 1)) // its kernel does not count the first
		u, err := s.group.Usage()
		if err != nil {
			return time.Time{}, err
		}
		s.idle = u.MemoryPeak
	}
	_, err = s.launch(ctx, start, files, p)
	return time.Now(), err
}

// launch has the guest start a program, and returns its process on the host.
func (s *slot) launch(ctx context.Context, start guest.Start, files []*os.File, p *program) (pid int, err error) {
	g, theirs, err := newGate()
	if err != nil {
		return 0, err
	}
	err = s.link.start(start, append([]*os.File{theirs}, files...))
	_ = theirs.Close()
	if err == nil {
		pid, err = s.enter(ctx, g, p)
	}
	if err != nil {
		g.close()
		return 0, err
	}
	s.gate = g
	return pid, nil
}

// enter waits for the process at the gate, puts it under the job's limits and
// has it go through. The process of a kernel of its own is that of the whole
// sandbox, which is in its group from the start.
func (s *slot) enter(ctx context.Context, g *gate, p *program) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, gateTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = g.conn.SetDeadline(time.Unix(1, 0)) })()
	pid, err := g.wait()
	if err == nil && !s.foreign {
		err = s.group.Add(pid)
		if n := uint64(p.limits.OpenFiles); err == nil && n > 0 { // from outside, since the sandbox may not raise its own
			err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}, nil)
		}
	}
	if err == nil {
		err = s.admitGate(pid, p, g)
	}
	if err != nil {
		return 0, fmt.Errorf("start the program: %w", errors.Join(err, ctx.Err()))
	}
	return pid, nil
}

// End implements sandbox.Box.
func (s *slot) End(e *ended) error {
	if s.gate != nil { // none before an interpreter that waited
		defer s.gate.close()
		err := s.gate.result()
		if !errors.As(err, &e.failure) && err != nil {
			return err
		}
	}
	select {
	case m := <-s.link.ended:
		e.status = unix.WaitStatus(m.Status)
		if m.Error != "" {
			return fmt.Errorf("the guest cannot start a program: %.200s", m.Error)
		}
		return nil
	case <-s.link.gone:
	}
	if err := process.DeathPatience.With(s.group.Usage).Wait(s.container.proc); err != nil {
		return err
	}
	return errGuest
}
