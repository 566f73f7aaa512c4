package grade

import (
	"bufio"
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

// side is a service of guest/python for one end of a grading. A fresh interpreter gets the source
// of its own side only.
type side string

const (
	solutionSide side = "solution"
	checkSide    side = "check"
	sharedSide   side = "shared" // both ends in one process
)

// code returns the code for a side.
func (s side) code(t *job.Tests) string {
	switch s {
	case checkSide:
		return t.Setup + "\n" + t.Check
	case sharedSide:
		return t.Setup + "\n" + t.Code + "\n" + t.Check
	}
	return t.Setup + "\n" + t.Code
}

// sandbox is one attempt in a slot, and the stream to its program.
type sandbox struct {
	slot    runtime.Slot
	program runtime.Process
	conn    net.Conn // nil if the program did not start: the end of the sandbox then has the reason

	source struct{ io.Reader } // the connection as the present call of receive reads it
	in     *bufio.Reader       // of source: a short frame takes one system call
}

// shortFrame is the size in bytes of a frame that is read at once.
const shortFrame = 1 << 10

// open starts a side in a fresh slot. It takes ownership of link, the end of the link, if any.
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
	plan.Policy.Wall = job.Duration(wall + grace) // receive ends it earlier, because it excludes the worker's own delays
	a.Plan = &plan
	a.Service, a.Link, a.CPUGroup = string(s), link, g.cpuGroup
	program, err := slot.Start(ctx, a)
	if err != nil {
		slot.Close()
		return nil, err
	}
	b := &sandbox{slot: slot, program: program, conn: program.Conn()}
	b.in = bufio.NewReaderSize(&b.source, shortFrame)
	return b, nil
}

// attempt returns the attempt of the next sandbox. It collects only artifacts of the solution's
// first sandbox, because each name has one file. The check leaves no artifacts.
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

// end ends the sandbox and accounts for its usage.
func (g *grading) end(b *sandbox, s side) (*runtime.Report, error) {
	defer g.pause()()
	b.program.Stop()
	rep, err := b.program.Wait()
	b.slot.Close()
	if err != nil {
		return nil, err
	}
	g.account(rep, s)
	return rep, requireOutcome(rep)
}

// requireOutcome returns an error for reports without information about the program: the job was
// canceled, or a requirement was missing.
func requireOutcome(rep *runtime.Report) error {
	switch rep.Outcome {
	case job.OutcomeCanceled:
		return errCanceled
	case job.SetupError:
		return &unready{rep.Message}
	}
	return nil
}

// unstarted returns an error if a side's interpreter could not be executed. An image without Python
// is not the solution's fault.
func unstarted(rep *runtime.Report) error {
	if rep.Unbegun {
		return &unready{"solutions need a python3 in the image: " + rep.Message}
	}
	return nil
}

// unready ends a grading in which no solution could run, with the reason.
type unready struct{ message string }

func (u *unready) Error() string { return u.message }

// errCanceled ends the grading of a canceled job.
var errCanceled = errors.New("canceled")

// send writes a frame. If the program does not read it, reading the response fails.
func (b *sandbox) send(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	b.relay(raw)
	return nil
}

// relay writes a frame from the other sandbox. A program that does not read must not block the
// worker.
func (b *sandbox) relay(raw []byte) {
	if b.conn != nil {
		_ = b.conn.SetWriteDeadline(time.Now().Add(writeTime))
		_, _ = b.conn.Write(frame.Of(raw))
	}
}

// writeTime is the time limit of a program to read a frame.
const writeTime = 10 * time.Second

// receive reads the next frame until a moment. The error is os.ErrDeadlineExceeded after the
// moment, and wraps frame.ErrProtocol for malformed frames. Any other error means that the program
// is gone.
func (g *grading) receive(b *sandbox, until time.Duration) (*message, error) {
	return g.receiveBy(b, until, frameReader{&g.toll}.next)
}

// receiveBy is receive with a custom read function.
func (g *grading) receiveBy(b *sandbox, until time.Duration, read func(io.Reader) (*message, error)) (*message, error) {
	if b.conn == nil {
		return nil, net.ErrClosed
	}
	g.proceed()
	b.source.Reader = &patient{Conn: b.conn, clock: &g.clock, until: until}
	f, err := read(b.in)
	if err == nil && f.Op != "late" { // a guest that requests more time continues meanwhile
		g.waits.CountResponse()
	}
	g.halt()
	g.pay()
	return f, err
}

func late(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
