package control

import (
	"context"
	"encoding/json"

	"github.com/assay-run/assay/pkg/job"
)

// SessionOp is a dispatcher's operation on a session.
type SessionOp string

// The operations, with the fields of a SessionCall that they use.
const (
	SessionOpen      SessionOp = "open"      // Tenant, Spec
	SessionExecute   SessionOp = "execute"   // Code, Variables, Wall
	SessionShell     SessionOp = "shell"     // Code, Wall
	SessionSet       SessionOp = "set"       // Name, Data: JSON
	SessionGet       SessionOp = "get"       // Name
	SessionList      SessionOp = "list"      //
	SessionReset     SessionOp = "reset"     //
	SessionInject    SessionOp = "inject"    // Names
	SessionPut       SessionOp = "put"       // Path, Data
	SessionFile      SessionOp = "file"      // Path, Offset, Length
	SessionExport    SessionOp = "export"    // stores the session's artifacts in the object store
	SessionInterrupt SessionOp = "interrupt" //
	SessionPending   SessionOp = "pending"   //
	SessionAnswer    SessionOp = "answer"    // Call, Value or Error
	SessionFork      SessionOp = "fork"      // Fork
	SessionKeep      SessionOp = "keep"      // extends the client's lease
	SessionClose     SessionOp = "close"     //
	SessionTail      SessionOp = "tail"      // Session is a job; Tail: the position in its program's output
	SessionPing      SessionOp = "ping"      // checks whether the worker holds the session
)

// SessionCall is one request about one session.
type SessionCall struct {
	Op        SessionOp                  `json:"op"`
	Session   job.ID                     `json:"session"`
	Tenant    string                     `json:"tenant"`
	Spec      *job.SessionSpec           `json:"spec,omitempty"`
	Execute   job.ID                     `json:"execute,omitempty"`
	Fork      job.ID                     `json:"fork,omitempty"` // id of the new session
	Code      string                     `json:"code,omitempty"`
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
	Tagged    bool                       `json:"tagged,omitempty"` // Variables or Data are in the tagged encoding of values
	Wall      job.Duration               `json:"wall,omitempty"`   // 0: the policy's
	Name      string                     `json:"name,omitempty"`
	Names     []string                   `json:"names,omitempty"`
	Path      string                     `json:"path,omitempty"`
	Offset    int64                      `json:"offset,omitempty"`
	Length    int64                      `json:"length,omitempty"` // requested part of a file; 0: all of it
	Data      []byte                     `json:"-"`                // after the JSON: see Encode
	Call      int64                      `json:"call,omitempty"`
	Tail      *TailRequest               `json:"tail,omitempty"`
	Value     json.RawMessage            `json:"value,omitempty"`
	Error     string                     `json:"error,omitempty"`
	// TraceParent is the W3C trace context of the request; empty: none.
	TraceParent string `json:"traceparent,omitempty"`
}

// SessionReply answers a SessionCall.
type SessionReply struct {
	Execute   *job.Execute            `json:"execute,omitempty"`
	Value     *job.Value              `json:"value,omitempty"`
	Variables map[string]job.Variable `json:"variables,omitempty"`
	Data      []byte                  `json:"-"`                // of a file, or the JSON of a long value
	Tagged    bool                    `json:"tagged,omitempty"` // Data is in the tagged encoding of values
	Size      int64                   `json:"size,omitempty"`   // of the whole file, or of a value's JSON, in bytes
	Reset     *job.SessionReset       `json:"reset,omitempty"`
	Pending   []job.HostCall          `json:"pending,omitempty"`
	Tail      *Tail                   `json:"tail,omitempty"`
	Ended     *SessionEnd             `json:"ended,omitempty"` // set if the session has ended, now or before
}

// SessionEnd is how a session ended.
type SessionEnd struct {
	Session job.ID      `json:"session"`
	Outcome job.Outcome `json:"outcome"`
	Message string      `json:"message"`
}

// SessionEvent is a worker's message to the dispatchers that watch a session. It is a hint, like
// every wake-up: pending calls can also be queried.
type SessionEvent struct {
	Call  *job.HostCall `json:"call,omitempty"`
	Ended *SessionEnd   `json:"ended,omitempty"`
}

// SessionTopic returns the topic of the events of one session. All dispatchers receive the end of
// each session on TopicSessionEnd.
func SessionTopic(id job.ID) string { return "session-" + string(id) }

// TopicSessionEnd carries SessionEnds.
const TopicSessionEnd = "session-ended"

// SessionCaller is a dispatcher's connection to one worker.
type SessionCaller interface {
	// CallSession waits for the worker's answer until ctx ends. job.ErrLost: there is no such
	// worker, or it vanished. job.ErrNotFound: it does not hold the session.
	CallSession(ctx context.Context, worker string, c SessionCall) (SessionReply, error)
}

// SessionServer receives session calls on a worker.
type SessionServer interface {
	// ServeSessions calls h for every request, each in a goroutine of its own, until ctx ends. It
	// returns once it is subscribed.
	ServeSessions(ctx context.Context, worker string, h func(context.Context, SessionCall) (SessionReply, error)) error
	// Broadcast sends payload to every dispatcher that listens on the topic.
	Broadcast(worker, topic string, payload []byte) error
}
