package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/awake"
	"github.com/assay-run/assay/internal/boundedjson"
	"github.com/assay-run/assay/internal/budget"
	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

const (
	// maxAnswer is the longest frame that a session may send, in bytes.
	maxAnswer = 24 << 20
	// maxUnasked is the longest that nobody waits for.
	maxUnasked = 1 << 20
	// longTime is how long a longer one may take to arrive: others wait meanwhile.
	longTime = 10 * time.Second
	// maxArgs is the longest that the arguments of one call may be, in bytes of JSON,
	// and maxOpenArgs those of all that wait for an answer.
	maxArgs     = 4 << 20
	maxOpenArgs = 8 << 20
	// maxOpenCalls is how many calls of host functions may wait at once.
	maxOpenCalls = 256
	// longest is how long a session may live at all.
	longest = 24 * time.Hour
	// startTime bounds the start of an interpreter on a busy machine.
	startTime = 30 * time.Second
)

// live is one session.
type live struct {
	id     job.ID
	tenant string
	spec   job.SessionSpec
	policy policy.Policy
	tell   func(control.SessionEvent)
	plan   *policy.Plan
	slot   runtime.Slot
	awake  *awake.Keeper
	inject []string      // host functions to begin with; what is a copy has them
	meters               // of what it uses
	waited time.Duration // for cores, by the last request

	exporter  Exporter        // nil: nothing of it is kept
	running   context.Context // ends when nothing of its program is left
	stopped   context.CancelFunc
	exporting sync.Mutex // an export, or the end of the slot
	gather    runtime.Gather
	gathering bool // an export is under way; guarded by mu, as gather is

	conn    net.Conn
	writing sync.Mutex
	ready   chan struct{} // closed when the interpreter waits for work
	over    chan struct{} // closed when the session has ended
	turn    chan struct{} // holds one token: one request at a time

	mu        sync.Mutex
	next      int64
	waiting   map[int64]chan *message
	calls     map[int64]job.HostCall
	called    int        // of policy.Callbacks.MaxCalls
	made      int        // calls of host functions, those that were refused among them
	executing int64      // id of the request that can be interrupted; 0: none
	exceeded  chan limit // of what executes now: streams that passed a limit
	asked     bool       // it was interrupted by its client
	used      time.Time
	seen      time.Time
	end       *control.SessionEnd // first reason wins
	cut       bool                // what it said last is not whole
}

// message is any of a session.
type message struct {
	Op          string                  `json:"op"`
	ID          int64                   `json:"id"`
	Error       string                  `json:"error"`
	Value       *job.Value              `json:"value"`
	Variables   map[string]job.Variable `json:"variables"`
	Exception   *job.ExceptionInfo      `json:"exception"`
	Interrupted bool                    `json:"interrupted"`
	Violation   string                  `json:"violation"` // of the rules for imports; then nothing ran
	Stream      string                  `json:"stream"`
	Source      string                  `json:"source"`
	Code        *int                    `json:"code"`
	Output      [][2]string             `json:"output"`
	Tail        [][2]string             `json:"tail"`
	Bytes       map[string]int64        `json:"bytes"`
	Display     []job.Display           `json:"display"`
	WallMS      float64                 `json:"wall_ms"`
	Data        []byte                  `json:"data"`
	Size        int64                   `json:"size"`
	Tagged      bool                    `json:"tagged"` // Data is in the tagged encoding of values
	Reset       *job.SessionReset       `json:"reset"`
	Call        int64                   `json:"call"`
	Name        string                  `json:"name"`
	Args        json.RawMessage         `json:"args"`
	Kwargs      json.RawMessage         `json:"kwargs"`
}

func newLive(id job.ID, tenant string, spec job.SessionSpec, plan *policy.Plan, slot runtime.Slot, tell func(control.SessionEvent)) *live {
	l := &live{
		id: id, tenant: tenant, spec: spec, policy: plan.Policy, plan: plan, slot: slot, tell: tell,
		ready: make(chan struct{}), over: make(chan struct{}), turn: make(chan struct{}, 1),
		waiting: map[int64]chan *message{}, calls: map[int64]job.HostCall{}, used: time.Now(), seen: time.Now(),
		meters: newMeters(&plan.Policy),
	}
	l.running, l.stopped = context.WithCancel(context.Background())
	l.turn <- struct{}{}
	return l
}

// run is the session's life: it returns when the session has ended.
func (l *live) run(ctx context.Context) {
	defer close(l.over)
	defer l.release()
	whole := *l.plan // each execution has the policy's times, the session as a whole only an end
	whole.Policy.Wall, whole.Policy.CPUTime = job.Duration(longest), job.Duration(longest)*64
	in := runtime.Attempt{
		Job: l.id, Lease: 1, Service: "session", Plan: &whole, Deadline: time.Now().Add(longest), Forks: true,
		CPU: l.budget, Waits: l.waits, Metered: l.metered, Gathered: l.gathered,
	}
	last := l.exports()
	if last != nil {
		in.Collect = last.take
	}
	rep, err := l.serve(ctx, in)
	l.stopped()
	if err == nil {
		l.mu.Lock()
		l.settle(rep.Usage)
		l.mu.Unlock()
	}
	l.finish(l.verdict(rep, err))
	l.exporting.Lock() // what was exported before is over, and this one counts
	l.leave(ctx, last, rep, err)
	l.exporting.Unlock()
	l.tell(control.SessionEvent{Ended: l.ended()})
}

// serve starts the session's program and deals with what it says, until it has ended.
func (l *live) serve(ctx context.Context, a runtime.Attempt) (*runtime.Report, error) {
	program, err := l.slot.Start(ctx, a)
	if err != nil {
		return nil, err
	}
	if conn := program.Conn(); conn != nil && l.connected(conn) {
		l.listen(conn)
	}
	program.Stop()
	return program.Wait()
}

// connected notes the stream of the session, unless that was killed before it had one.
func (l *live) connected(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return l.end == nil
}

// release closes the slot, when nobody looks into it any more.
func (l *live) release() {
	l.stopped()
	l.exporting.Lock()
	defer l.exporting.Unlock()
	l.slot.Close()
}

// verdict says why a session ended that nobody ended. A limit that was enforced
// explains whatever else there is to see.
func (l *live) verdict(rep *runtime.Report, err error) (job.Outcome, string) {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	switch {
	case err != nil:
		return job.Lost, "the sandbox failed: " + err.Error()
	case rep.Outcome == job.TimedOut && l.budget.Left() <= 0:
		return job.TimedOut, fmt.Sprintf("it used more CPU time than its limit of %s", l.policy.CPUTime)
	case rep.Outcome == job.TimedOut:
		return job.TimedOut, "the session lived for " + longest.String()
	case rep.Outcome == job.OutOfMemory:
		return job.OutOfMemory, rep.Message
	case cut:
		return job.PolicyViolation, "the session broke the protocol: " + frame.ErrCut.Error()
	case rep.Outcome == job.Succeeded:
		return job.Failed, "the interpreter ended"
	}
	return rep.Outcome, "the interpreter ended: " + rep.Message + note(rep.Stderr.Text)
}

func note(stderr string) string {
	if stderr == "" {
		return ""
	}
	return " (" + job.Clip(stderr, 500) + ")"
}

// finish says why the session ends. The first reason counts.
func (l *live) finish(o job.Outcome, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		l.end = &control.SessionEnd{Session: l.id, Outcome: o, Message: job.Clip(message, 1000)}
	}
}

// kill ends the session.
func (l *live) kill(o job.Outcome, message string) {
	l.finish(o, message)
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // listen returns
	}
}

func (l *live) ended() *control.SessionEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// listen reads what the session says until its end.
func (l *live) listen(conn net.Conn) {
	if len(l.inject) > 0 { // before anything else that is asked, so nobody waits for the answer
		l.say(map[string]any{"op": "inject", "id": 0, "names": l.inject, "first": true})
	}
	for {
		done := func() {}
		raw, err := frame.ReadObject(conn, frameBounds, func(size int) (err error) {
			done, err = l.room(conn, size)
			return err
		})
		if err == nil {
			err = l.hear(raw)
		}
		done()
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("%w: a frame that does not arrive", frame.ErrProtocol) // a session that is killed has a reason already
		}
		switch {
		case errors.Is(err, frame.ErrCut): // it may have been killed
			l.mu.Lock()
			l.cut = true
			l.mu.Unlock()
		case errors.Is(err, frame.ErrProtocol):
			l.finish(job.PolicyViolation, "the session broke the protocol: "+err.Error())
		} // else nobody is at the other end any more: how that came about the report says
		return
	}
}

// arriving is the memory for long frames of sessions. Sessions of one tenant have at most the
// largest frame of it.
var arriving = budget.New(2*maxAnswer, maxAnswer)

// room waits until a frame of that size may arrive. The caller calls done when it has
// handled the frame.
func (l *live) room(conn net.Conn, size int) (done func(), err error) {
	if size <= maxUnasked {
		return func() {}, nil
	}
	l.mu.Lock()
	asked := len(l.waiting) > 0
	l.mu.Unlock()
	if !asked {
		return nil, fmt.Errorf("%w: a frame of %d bytes that nobody asked for", frame.ErrProtocol, size)
	}
	leave, _ := arriving.Enter(context.Background(), l.tenant, size) // it waits for frames, whose time is limited
	l.deadline(conn, time.Now().Add(longTime))
	return func() {
		l.deadline(conn, time.Time{})
		leave()
	}, nil
}

// deadline sets one for reading, unless the session is about to end.
func (l *live) deadline(conn net.Conn, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		_ = conn.SetReadDeadline(t)
	}
}

// frameLimits are beyond all that an interpreter of ours says.
var frameLimits = boundedjson.Limits{Values: 128 << 10, Depth: 200}

// frameBounds leave room for the arguments of a call, which are passed on as they
// are, however many values they have. Nothing else that is long has many.
var frameBounds = frame.Limits{Bytes: maxAnswer, Free: maxArgs + 4<<10, Values: frameLimits}

// decode reads a frame. The arguments of a call may be as many as fit in: they are
// passed on as they are.
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

// hear deals with one frame.
func (l *live) hear(raw []byte) error {
	f, err := decode(raw)
	if err != nil {
		return err
	}
	switch f.Op {
	case "ready":
		now, _ := l.spent()
		l.mu.Lock()
		defer l.mu.Unlock()
		select {
		case <-l.ready:
		default:
			l.starts(now)
			l.awake.Stay()
			close(l.ready)
		}
		return nil
	case "done":
		l.mu.Lock()
		answer := l.waiting[f.ID]
		delete(l.waiting, f.ID)
		l.mu.Unlock()
		if answer != nil { // somebody waits for it: what a session says unasked keeps nobody awake
			l.awake.Stay()
			answer <- f
		}
		return nil
	case "call":
		return l.call(f)
	case "exceeded":
		l.exceeds(f)
		return nil
	}
	return fmt.Errorf("%w: op %.40q", frame.ErrProtocol, f.Op)
}

// send writes one frame, and its load behind it.
func (l *live) send(m map[string]any, load [][]byte, files ...*os.File) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(startTime))
	for _, b := range load {
		m["load"] = len(b)
	}
	var err error
	if conn, ok := l.conn.(*net.UnixConn); ok && len(files) > 0 {
		err = frame.WriteFiles(conn, m, files)
	} else {
		err = frame.Write(l.conn, m)
	}
	for _, b := range load {
		if err == nil {
			_, err = l.conn.Write(b)
		}
	}
	return err
}

// say sends what has no answer. That a session cannot be written to any more is
// told by its end.
func (l *live) say(m map[string]any) { _ = l.send(m, nil) }
