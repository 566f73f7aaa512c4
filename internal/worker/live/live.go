package live

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/internal/worker/awake"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

const (
	// maxAnswer is the longest frame from a session, in bytes.
	maxAnswer = 24 << 20
	// maxEventFrame is the longest frame that is not a response.
	maxEventFrame = 1 << 20
	// longTime is how long a longer frame may take to arrive, because other sessions wait.
	longTime = 10 * time.Second
	// maxArgs is the most bytes of JSON in the arguments of one call, and maxOpenArgs of all open
	// calls.
	maxArgs     = 4 << 20
	maxOpenArgs = 8 << 20
	// maxOpenCalls is the most open calls of host functions.
	maxOpenCalls = 256
	// longest is the longest life of a session.
	longest = 24 * time.Hour
	// startTime limits the start of an interpreter on a busy machine.
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
	inject []string      // initial host functions; a copy already has them
	meters               // usage
	waited time.Duration // for cores, by the last request

	exporter  Exporter        // nil: no exports
	running   context.Context // ends when the program and all its processes have ended
	stopped   context.CancelFunc
	exporting sync.Mutex // held by an export or the end of the slot
	gather    runtime.Gather
	gathering bool // an export is in progress; guarded by mu, like gather

	conn    net.Conn
	writing sync.Mutex
	ready   chan struct{} // closed when the interpreter is ready
	over    chan struct{} // closed when the session has ended
	turn    chan struct{} // one token: one request at a time

	mu        sync.Mutex
	next      int64
	waiting   map[int64]chan *message
	calls     map[int64]job.HostCall
	called    int        // of policy.Callbacks.MaxCalls
	made      int        // calls of host functions, including rejected ones
	executing int64      // id of the interruptible request; 0: none
	exceeded  chan limit // streams of the current execution that exceeded a limit
	asked     bool       // its client interrupted it
	used      time.Time
	seen      time.Time
	end       *control.SessionEnd // the first reason counts
	cut       bool                // its last frame is incomplete
}

// message is any message from a session.
type message struct {
	Op          string                  `json:"op"`
	ID          int64                   `json:"id"`
	Error       string                  `json:"error"`
	Value       *job.Value              `json:"value"`
	Variables   map[string]job.Variable `json:"variables"`
	Exception   *job.ExceptionInfo      `json:"exception"`
	Interrupted bool                    `json:"interrupted"`
	Violation   string                  `json:"violation"` // of the rules for imports; nothing was run
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

// run runs the session and returns when it has ended.
func (l *live) run(ctx context.Context) {
	defer close(l.over)
	defer l.release()
	whole := *l.plan // each execution has the policy's times; the whole session has only a maximum
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
	l.exporting.Lock() // replaces the earlier export
	l.leave(ctx, last, rep, err)
	l.exporting.Unlock()
	l.tell(control.SessionEvent{Ended: l.ended()})
}

// serve starts the session's program and handles its messages until its end.
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

// connected records the stream of the session, unless the session was already killed.
func (l *live) connected(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return l.end == nil
}

// release closes the slot when no export uses it.
func (l *live) release() {
	l.stopped()
	l.exporting.Lock()
	defer l.exporting.Unlock()
	l.slot.Close()
}

// verdict returns why a session ended by itself. An enforced limit takes precedence over other
// symptoms.
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

// finish records why the session ends. The first reason counts.
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

// handleFrame handles one frame.
func (l *live) handleFrame(raw []byte) error {
	if err := frame.CheckObject(raw); err != nil {
		return err
	}
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
		if answer != nil { // a response: unsolicited messages do not keep processors awake
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

// send writes one frame and its load.
func (l *live) send(m map[string]any, load [][]byte, files ...*os.File) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(startTime))
	for _, b := range load {
		m["load"] = len(b)
	}
	var err error
	if conn, ok := toll.Raw(l.conn).(*net.UnixConn); ok && len(files) > 0 {
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

// say sends a frame without a response. It ignores write errors, because the session's end reports
// them.
func (l *live) say(m map[string]any) { _ = l.send(m, nil) }
