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

// interpreter is a Python that waits in a task slot, so that its job starts faster.
type interpreter struct {
	pid  int // on the host
	conn *packet.Conn
}

// warmTime limits the start of an interpreter on an overloaded machine.
const warmTime = 20 * time.Second

// warm starts an interpreter in s. If the image cannot have one, that is not an error: its jobs
// start their own and report the problem. Only the operator's images without packages may have one,
// because a waiting interpreter has neither a job's filter nor its limits, and its usage is not
// metered.
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
	slog.DebugContext(ctx, "interpreter not started ahead in a slot", "image", s.of.Name, "error", err)
	return nil
}

func (s *slot) startInterpreter(ctx context.Context) (err error) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return err
	}
	defer ours.BindContext(ctx)()
	files, err := interpreterFiles(theirs, s.Null)
	if err != nil {
		ours.Close()
		return err
	}
	def := policy.Default()
	def.MainStack = guest.MostStack
	def.OpenFiles = 0 // no limit: without the right to raise it, a lower one would be final
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
		ours.Close() // ends it if it has started
		return errors.Join(err, s.waitEnded(ctx))
	}
	s.python = &interpreter{pid, ours}
	return nil
}

// interpreterFiles returns the descriptors of a waiting interpreter. It takes ownership of slot.
// The output is a pipe from the start, because an interpreter caches whether it is seekable. It is
// never read.
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

// waitEnded waits until the guest reports the end of its program.
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

// endInterpreter ends an interpreter without a job, so that another program can run.
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

// spent returns the usage of the slot's programs before its job. A waiting interpreter is not
// charged to the job.
func (s *slot) spent() (cgroup.Usage, error) {
	if s.python == nil {
		return cgroup.Usage{}, nil
	}
	u, err := s.Group.Usage()
	return cgroup.Usage{CPU: u.CPU}, err
}
