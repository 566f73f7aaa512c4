package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/runtime/containerd/engine"
	"github.com/assay-run/assay/pkg/runtime/process"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// Serves implements sandbox.Box.
func (s *slot) Serves(asked map[string]string) bool {
	return s.python != nil && !sandbox.StartsAfresh(asked)
}

// Begin implements sandbox.Box.
func (s *slot) Begin(ctx context.Context, p *sandbox.Program, files []*os.File) (time.Time, error) {
	filter, err := s.rt.filters.Of(p.Limits, s.rt.filter)
	if err != nil {
		return time.Time{}, err
	}
	if p.Python && s.Serves(p.Asked) {
		i := s.python
		s.python = nil
		defer i.conn.Close()
		s.pid = i.pid
		return s.AdmitRun(i.pid, p, i.conn, p.Args, files, filter)
	}
	if err := s.endInterpreter(ctx); err != nil {
		return time.Time{}, err
	}
	start := guest.Start{Argv: p.Args, Env: p.Env, Dir: p.Dir, UID: sandbox.ProgramUID, GID: sandbox.ProgramGID, Filter: filter}
	if s.Foreign {
		start.Stack = sandbox.StackOf(p.Limits)
		// its kernel does not count the first
		start.OpenFiles, start.Processes = uint64(p.Limits.OpenFiles), uint64(max(p.Limits.Processes-1, 1))
		u, err := s.Group.Usage()
		if err != nil {
			return time.Time{}, err
		}
		s.Idle = u.MemoryPeak
	}
	s.pid, err = s.launch(ctx, start, files, p)
	return time.Now(), err
}

// launch makes the guest start a program, and returns its process on the host.
func (s *slot) launch(ctx context.Context, start guest.Start, files []*os.File, p *sandbox.Program) (pid int, err error) {
	g, theirs, err := sandbox.NewGate()
	if err != nil {
		return 0, err
	}
	err = s.link.Start(start, append([]*os.File{theirs}, files...))
	_ = theirs.Close()
	if err == nil {
		pid, err = s.enter(ctx, g, p)
	}
	if err != nil {
		g.Close()
		return 0, err
	}
	s.gate = g
	return pid, nil
}

// enter waits for the process at the gate, applies the job's limits and lets it continue. With a
// separate kernel the process is the whole sandbox's, which is in its group from the start.
func (s *slot) enter(ctx context.Context, g *sandbox.Gate, p *sandbox.Program) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sandbox.GateTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = g.Conn.SetDeadline(time.Unix(1, 0)) })()
	pid, err := g.Wait()
	if err == nil && !s.Foreign {
		err = s.Group.Add(pid)
		if n := uint64(p.Limits.OpenFiles); err == nil && n > 0 { // from outside, because the sandbox may not raise its own
			err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}, nil)
		}
		if err == nil {
			err = engine.LimitStack(pid, sandbox.StackOf(p.Limits))
		}
	}
	if err == nil {
		err = s.AdmitGate(pid, p, g)
	}
	if err != nil {
		return 0, fmt.Errorf("start the program: %w", errors.Join(err, ctx.Err()))
	}
	return pid, nil
}

// Over implements sandbox.Box. With a separate kernel the process is the whole sandbox's.
func (s *slot) Over() bool { return s.link.HasReported() || !s.Foreign && process.Over(s.pid) }

// End implements sandbox.Box.
func (s *slot) End(e *sandbox.Exit) error {
	if s.gate != nil { // none with a waiting interpreter
		defer s.gate.Close()
		err := s.gate.Result()
		if !errors.As(err, &e.Failure) && err != nil {
			return err
		}
	}
	select {
	case m := <-s.link.Ended:
		e.Status = unix.WaitStatus(m.Status)
		if m.Error != "" {
			return fmt.Errorf("the guest cannot start a program: %.200s", m.Error)
		}
		return nil
	case <-s.link.Gone:
	}
	if err := process.DeathPatience.With(s.Group.Usage).Wait(s.container.Proc); err != nil {
		return err
	}
	return sandbox.ErrGuest
}
