package runtimetest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// echo answers every line with itself, until the end.
const echo = `
import socket
s = socket.socket(fileno=5)
f = s.makefile("rw")
for line in f:
    f.write("you said " + line)
    f.flush()
print("end")
`

// say sends lines and expects what echo makes of them.
func say(lines ...string) runtime.Converse {
	return func(_ context.Context, conn net.Conn) error {
		r := bufio.NewReader(conn)
		for _, line := range lines {
			if _, err := io.WriteString(conn, line+"\n"); err != nil {
				return err
			}
			if got, err := r.ReadString('\n'); err != nil || got != "you said "+line+"\n" {
				return errors.New("it answered " + got)
			}
		}
		return nil
	}
}

// listen reads until the program or the context ends.
func listen(ctx context.Context, conn net.Conn) error {
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	_, _ = io.Copy(io.Discard, conn)
	return nil
}

// talks are programs that somebody talks with.
func talks() []program {
	return []program{
		{name: "question and answer", run: py(echo), talk: say("one", "two"), outcome: job.Succeeded, check: stdoutIs("")},
		{name: "hangs up first", run: py(echo), outcome: job.Succeeded, check: stdoutIs("end\n"), talk: func(ctx context.Context, conn net.Conn) error {
			if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
				return err
			}
			return listen(ctx, conn)
		}},
		{name: "over before it listens", run: py("import time; time.sleep(1000)"), outcome: job.Succeeded, atMost: 3 * time.Second,
			talk: func(context.Context, net.Conn) error { return nil }},
		{name: "its own end counts", run: py("import sys; sys.exit(3)"), talk: listen, outcome: job.Failed, code: 3},
		{name: "its own kill counts", run: py("import os; os.kill(os.getpid(), 9)"), talk: listen, outcome: job.Signaled},
		{name: "an exception counts", run: py("1/0"), talk: listen, outcome: job.Exception, code: 1, check: exceptionIs("ZeroDivisionError")},
		{name: "limits hold", run: py(echo), talk: listen, outcome: job.TimedOut, edit: wall(500 * time.Millisecond), atMost: 3 * time.Second},
		{name: "memory holds", run: py("x = bytearray(400 << 20)"), talk: listen, outcome: job.OutOfMemory,
			edit: func(p *policy.Policy) { p.Memory = 64 * job.MiB }},
		{name: "a flood", outcome: job.TimedOut, edit: wall(500 * time.Millisecond), atMost: 3 * time.Second, talk: listen, run: py(`
import os
while True:
    os.write(5, b"x" * 1_000_000)`)},
		{name: "nobody reads", outcome: job.TimedOut, edit: wall(500 * time.Millisecond), atMost: 3 * time.Second, run: py(`
import os
while True:
    os.write(5, b"x" * 1_000_000)`), talk: func(ctx context.Context, _ net.Conn) error { <-ctx.Done(); return nil }},
		{name: "a child keeps the stream", outcome: job.Failed, code: 4, atMost: 3 * time.Second, talk: listen, run: py(`
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
os._exit(4)`)},
	}
}

// A failure of whoever talks is ours.
func (s *suite) failingTalk(t *testing.T) {
	a := s.attempt(t, py(echo), nil)
	broken := errors.New("broken")
	a.Converse = func(context.Context, net.Conn) error { return broken }
	slot := s.acquire(t, "python")
	defer slot.Close()
	if rep, err := slot.Run(t.Context(), a); !errors.Is(err, broken) {
		t.Errorf("Run: %+v, %v", rep, err)
	}
}
