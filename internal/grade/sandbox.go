package grade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// side says which end a sandbox holds, as a service of guest/python. An interpreter
// that was started afresh is lent the source of its own side, and not of the other.
type side string

const (
	solutionSide side = "solution"
	checkSide    side = "check"
	sharedSide   side = "shared" // both ends in one process
)

// code is what will run on a side.
func (s side) code(t *job.Tests) string {
	switch s {
	case checkSide:
		return t.Setup + "\n" + t.Check
	case sharedSide:
		return t.Setup + "\n" + t.Code + "\n" + t.Check
	}
	return t.Setup + "\n" + t.Code
}

// sandbox is one attempt in a slot, and the stream to the program in it.
type sandbox struct {
	slot    runtime.Slot
	program runtime.Process
	conn    net.Conn // nil if the program did not begin: the end of the sandbox then says why
}

// open starts a side in a fresh slot, with its end of the link if there is one,
// which is its own from then on.
func (g *grading) open(ctx context.Context, s side, wall time.Duration, link *os.File) (*sandbox, error) {
	if link != nil {
		defer link.Close()
	}
	defer g.pause()()
	slot, err := g.Acquire(ctx, sides, s.code(g.Tests))
	if err != nil {
		return nil, err
	}
	a := g.attempt(s)
	plan := *a.Plan
	plan.Policy.Wall = job.Duration(wall + grace) // receive ends it before: it knows whether the worker is late itself
	a.Plan = &plan
	a.Service, a.Link, a.Together = string(s), link, g.together
	program, err := slot.Start(ctx, a)
	if err != nil {
		slot.Close()
		return nil, err
	}
	return &sandbox{slot: slot, program: program, conn: program.Conn()}, nil
}

// attempt is that of the next sandbox. Only the artifacts of the solution's first one
// are kept: there is one file of a name. The check is not the job's program: it has no
// part in what that leaves behind, and takes it from nobody.
func (g *grading) attempt(s side) runtime.Attempt {
	a := g.Attempt
	a.CPU, a.Waits = g.cpu, g.waits
	if s == checkSide {
		a.Collect, a.Secrets = nil, nil
		return a
	}
	g.Attempt.Collect = nil
	return a
}

// end ends the sandbox and accounts for it.
func (g *grading) end(b *sandbox, s side) (*runtime.Report, error) {
	defer g.pause()()
	b.program.Stop()
	rep, err := b.program.Wait()
	b.slot.Close()
	if err != nil {
		return nil, err
	}
	g.account(rep, s)
	return rep, saysNothing(rep)
}

// saysNothing is an error if a report says nothing about the program: its job was canceled, or what the job asks for could
// not be had.
func saysNothing(rep *runtime.Report) error {
	switch rep.Outcome {
	case job.OutcomeCanceled:
		return errCanceled
	case job.SetupError:
		return &unready{rep.Message}
	}
	return nil
}

// unstarted is an error if the interpreter of a side could not be executed: an image without
// python is no solution's doing.
func unstarted(rep *runtime.Report) error {
	if rep.Unbegun {
		return &unready{"solutions need a python3 in the image: " + rep.Message}
	}
	return nil
}

// unready ends a grading in which no solution could be tried, and says why.
type unready struct{ message string }

func (u *unready) Error() string { return u.message }

// errCanceled ends a grading whose job was canceled.
var errCanceled = errors.New("canceled")

// send writes a frame. That nobody reads it shows when the answer is read.
func (b *sandbox) send(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	b.relay(raw)
	return nil
}

// relay writes a frame that came from the other sandbox. A program that does not
// read must not stop us.
func (b *sandbox) relay(raw []byte) {
	if b.conn != nil {
		_ = b.conn.SetWriteDeadline(time.Now().Add(writeTime))
		_, _ = b.conn.Write(frame.Of(raw))
	}
}

// writeTime is how long a program may let a frame for it lie.
const writeTime = 10 * time.Second

// receive reads the next frame until a moment. The error is os.ErrDeadlineExceeded if none came until then, and wraps
// frame.ErrProtocol if what came is no frame; any other error means that the program is gone.
func (g *grading) receive(b *sandbox, until time.Duration) (*message, error) {
	return g.receiveBy(b, until, readFrame)
}

// receiveBy is receive for frames that read reads.
func (g *grading) receiveBy(b *sandbox, until time.Duration, read func(io.Reader) (*message, error)) (*message, error) {
	if b.conn == nil {
		return nil, net.ErrClosed
	}
	g.proceed()
	f, err := read(&patient{Conn: b.conn, clock: &g.clock, until: until})
	if err == nil && f.Op != "late" { // a guest that asks for more time goes on meanwhile
		g.waits.Hear()
	}
	g.halt()
	return f, err
}

func late(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
