package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/assay-run/assay/internal/boundedjson"
	"github.com/assay-run/assay/internal/budget"
	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// shortFrame is the size in bytes of a frame that is read in one system call.
const shortFrame = 1 << 10

// listen reads the session's messages until its end.
func (l *live) listen(conn net.Conn) {
	if len(l.inject) > 0 { // before any other request, so there is no need to wait
		l.say(map[string]any{"op": "inject", "id": 0, "names": l.inject, "first": true})
	}
	in := bufio.NewReaderSize(conn, shortFrame)
	for {
		done := func() {}
		raw, err := frame.Read(in, frameBounds, func(size int) (err error) {
			done, err = l.room(conn, size)
			return err
		})
		if err == nil {
			toll.Of(conn).Measure(func() { err = l.handleFrame(raw) })
		}
		done()
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("%w: a frame that does not arrive", frame.ErrProtocol) // a killed session already has a reason
		}
		switch {
		case errors.Is(err, frame.ErrCut): // it may have been killed
			l.mu.Lock()
			l.cut = true
			l.mu.Unlock()
		case errors.Is(err, frame.ErrProtocol):
			l.finish(job.PolicyViolation, "the session broke the protocol: "+err.Error())
		} // otherwise the program has ended, as the report explains
		return
	}
}

// arriving is the memory for long frames. The sessions of one tenant may use one largest frame of
// it.
var arriving = budget.New(2*maxAnswer, maxAnswer)

// room waits until a frame of this size may arrive. The caller calls done after it has handled the
// frame.
func (l *live) room(conn net.Conn, size int) (done func(), err error) {
	if size <= maxEventFrame {
		return func() {}, nil
	}
	l.mu.Lock()
	asked := len(l.waiting) > 0
	l.mu.Unlock()
	if !asked {
		return nil, fmt.Errorf("%w: an unexpected frame of %d bytes", frame.ErrProtocol, size)
	}
	leave, _ := arriving.Enter(context.Background(), l.tenant, size) // it waits for frames, which have a time limit
	l.deadline(conn, time.Now().Add(longTime))
	return func() {
		l.deadline(conn, time.Time{})
		leave()
	}, nil
}

// deadline sets the read deadline, unless the session is ending.
func (l *live) deadline(conn net.Conn, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		_ = conn.SetReadDeadline(t)
	}
}

// frameLimits exceed all messages of our interpreter.
var frameLimits = boundedjson.Limits{Values: 128 << 10, Depth: 200}

// frameBounds exempt the arguments of a call, which are forwarded unchanged, from the limit of
// values. No other long frame has many.
var frameBounds = frame.Limits{Bytes: maxAnswer, Free: maxArgs + 4<<10, Values: frameLimits}

// decode decodes a frame. A call's arguments may have any number of values, because they are
// forwarded unchanged.
func decode(raw []byte) (*message, error) {
	var f message
	err := boundedjson.Unmarshal(raw, &f, frameLimits)
	if errors.Is(err, boundedjson.ErrLimit) {
		var c struct {
			Op           string
			Call         int64
			Name         string
			Args, Kwargs json.RawMessage
		}
		boundedjson.Build(raw, 0, func() {
			if json.Unmarshal(raw, &c) == nil && c.Op == "call" {
				f, err = message{Op: c.Op, Call: c.Call, Name: c.Name, Args: c.Args, Kwargs: c.Kwargs}, nil
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %.200s", frame.ErrProtocol, err.Error())
	}
	return &f, nil
}
