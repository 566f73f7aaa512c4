package runtimetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// echo returns every line until the end.
const echo = `
import socket
s = socket.socket(fileno=5)
f = s.makefile("rw")
for line in f:
    f.write("you said " + line)
    f.flush()
print("end")
`

// exchange is the communication on a program's stream until it is stopped.
type exchange func(runtime.Process) error

// run runs the attempt in the slot, with the exchange if there is one.
func (with exchange) run(ctx context.Context, slot runtime.Slot, a runtime.Attempt) (*runtime.Report, error) {
	if with == nil {
		return slot.Run(ctx, a)
	}
	p, err := slot.Start(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	failure := with(p)
	p.Stop()
	rep, err := p.Wait()
	return rep, errors.Join(err, failure)
}

// say sends lines and expects their echo.
func say(lines ...string) exchange {
	return func(p runtime.Process) error {
		r := bufio.NewReader(p.Conn())
		for _, line := range lines {
			if _, err := io.WriteString(p.Conn(), line+"\n"); err != nil {
				return err
			}
			if got, err := r.ReadString('\n'); err != nil || got != "you said "+line+"\n" {
				return errors.New("it answered " + got)
			}
		}
		return nil
	}
}

// listen reads until the program ends.
func listen(p runtime.Process) error {
	_, _ = io.Copy(io.Discard, p.Conn()) // unread data makes this an error
	return nil
}

// streams returns programs that are started with a stream.
func streams() []program {
	return []program{
		{name: "question and answer", run: py(echo), with: say("one", "two"), outcome: job.Succeeded, check: stdoutIs("")},
		{name: "hangs up first", run: py(echo), outcome: job.Succeeded, check: stdoutIs("end\n"), with: func(p runtime.Process) error {
			if err := p.Conn().(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				return err
			}
			return listen(p)
		}},
		{name: "over before it listens", run: py("import time; time.sleep(1000)"), outcome: job.Succeeded, atMost: 3 * time.Second,
			with: func(runtime.Process) error { return nil }},
		{name: "its own end counts", run: py("import sys; sys.exit(3)"), with: listen, outcome: job.Failed, code: 3},
		{name: "its own kill counts", run: py("import os; os.kill(os.getpid(), 9)"), with: listen, outcome: job.Signaled},
		{name: "an exception counts", run: py("1/0"), with: listen, outcome: job.Exception, code: 1, check: exceptionIs("ZeroDivisionError")},
		{name: "limits hold", run: py(echo), with: listen, outcome: job.TimedOut, edit: wall(500 * time.Millisecond), atMost: 3 * time.Second},
		{name: "memory holds", run: py("x = bytearray(400 << 20)"), with: listen, outcome: job.OutOfMemory,
			edit: func(p *policy.Policy) { p.Memory = 64 * job.MiB }},
		{name: "a flood", outcome: job.TimedOut, edit: wall(500 * time.Millisecond), atMost: 3 * time.Second, with: listen, run: py(`
import os
while True:
    os.write(5, b"x" * 1_000_000)`)},
		{name: "nobody reads", outcome: job.TimedOut, edit: wall(500 * time.Millisecond), atMost: 3 * time.Second, run: py(`
import os
while True:
    os.write(5, b"x" * 1_000_000)`), with: func(p runtime.Process) error { _, err := p.Wait(); return err }},
		{name: "a child keeps the stream", outcome: job.Failed, code: 4, atMost: 3 * time.Second, with: listen, run: py(`
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
os._exit(4)`)},
	}
}

// canceledStream checks that canceling the context of a started program ends its stream, and that a
// late Stop is harmless.
func (s *suite) canceledStream(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	slot := s.acquire(t, "python")
	defer slot.Close()
	a := s.attempt(t, py(echo), nil)
	p, err := slot.Start(ctx, a)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	if _, err := slot.Start(ctx, a); err == nil {
		t.Error("a slot ran a second attempt")
	}
	if err := say("one")(p); err != nil {
		t.Error(err)
	}
	cancel(runtime.ErrCanceled)
	_ = listen(p)
	for range 2 {
		p.Stop()
		if rep, err := p.Wait(); err != nil || rep.Outcome != job.OutcomeCanceled {
			t.Errorf("Wait = %+v, %v, want canceled", rep, err)
		}
	}
}
