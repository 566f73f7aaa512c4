package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/containerd/engine"
	"github.com/assay-run/assay/pkg/runtime/packet"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// interpreter is a Python that waits in a slot of isolation task, so that its
// job need not wait for one to start.
type interpreter struct {
	pid  int // on the host
	conn *packet.Conn
}

// warmTime bounds the start of an interpreter on a machine without any time left.
const warmTime = 20 * time.Second

// warm starts an interpreter in s. An image that cannot have one is no error:
// its jobs start their own, and say what is wrong. One that is not the operator's, or
// has packages on top, may not: what waits has neither a job's filter nor its limits,
// and nobody watches what it uses.
func (s *slot) warm(ctx context.Context) error {
	if s.of.Own != s.of {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, warmTime)
	defer cancel()
	err := s.startInterpreter(ctx)
	if err == nil || ctx.Err() != nil || !s.alive() {
		return err
	}
	slog.DebugContext(ctx, "no interpreter waits in a slot", "image", s.of.Name, "error", err)
	return nil
}

func (s *slot) startInterpreter(ctx context.Context) (err error) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return err
	}
	defer ours.Within(ctx)()
	files, err := interpreterFiles(theirs, s.Null)
	if err != nil {
		ours.Close()
		return err
	}
	def := policy.Default()
	def.MainStack = guest.MostStack
	def.OpenFiles = 0 // as many as it can have: whoever may not raise the limit could not undo a lower one
	pid, err := s.launch(ctx, guest.Start{
		Argv: []string{"python3", "-B", sandbox.GuestDir + "/zygote.py", "alone"}, Env: sandbox.Environ(s.Image), Dir: "/", UID: sandbox.ProgramUID, GID: sandbox.ProgramGID,
	}, files, &sandbox.Program{Limits: &def})
	for _, f := range files {
		_ = f.Close()
	}
	if err == nil {
		err = engine.RaiseOpenFiles(pid) // it lowers the limit to the job's
		if rerr := s.gate.Result(); err == nil {
			err = rerr
		}
		if err == nil {
			_, err = ours.Expect(guest.BoxWaiting)
		}
		s.gate.Close()
		s.gate = nil
	}
	if err != nil {
		ours.Close() // it ends, if it ever began
		return errors.Join(err, s.waitEnded(ctx))
	}
	s.python = &interpreter{pid, ours}
	return nil
}

// interpreterFiles are the descriptors of an interpreter that waits; slot is its
// own from now on. Its output is that of a pipe from the start, for an
// interpreter remembers whether it can seek there. Nobody reads it.
func interpreterFiles(slot int, empty string) (_ []*os.File, err error) {
	out := []*os.File{os.NewFile(uintptr(slot), "slot")}
	defer func() {
		if err != nil {
			for _, f := range out {
				_ = f.Close()
			}
		}
	}()
	null, err := sandbox.OpenDevice(empty)
	if err != nil {
		return nil, err
	}
	out = append(out, null)
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		_ = r.Close()
		out = append(out, w)
	}
	return append(out[1:], out[0]), nil
}

// waitEnded waits until the guest has said that its program has ended.
func (s *slot) waitEnded(ctx context.Context) error {
	select {
	case <-s.link.Ended:
		return nil
	case <-s.link.Gone:
		return sandbox.ErrGuest
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endInterpreter ends an interpreter that has no job, so that another program can run.
func (s *slot) endInterpreter(ctx context.Context) error {
	if s.python == nil {
		return nil
	}
	s.python.conn.Close()
	s.python = nil
	ctx, cancel := context.WithTimeout(ctx, sandbox.GateTime)
	defer cancel()
	if err := s.waitEnded(ctx); err != nil {
		return fmt.Errorf("end an interpreter: %w", err)
	}
	return nil
}

// spent is what the slot's programs have used before its job: an interpreter
// that waited there is not the job's expense.
func (s *slot) spent() (cgroup.Usage, error) {
	if s.python == nil {
		return cgroup.Usage{}, nil
	}
	u, err := s.Group.Usage()
	return cgroup.Usage{CPU: u.CPU}, err
}
