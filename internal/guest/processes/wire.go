package processes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/assay-run/assay/internal/frame"
)

const (
	// Window is the most bytes of a program's input, and of its output, that the other side has not
	// yet taken.
	Window = 256 << 10
	// MaxLoad is the most raw bytes after a message.
	MaxLoad = 32 << 10
	// maxMessage is the most bytes of a message's JSON. The arguments and environment of a program fit.
	maxMessage = 4 << 20
	// maxReport is the most bytes of the JSON of a message from the server.
	maxReport = 64 << 10
	// maxError is the most bytes of an error text.
	maxError = 4 << 10
)

// The streams of a program. The output of a program with a terminal is Stdout.
const (
	Stdout = 1
	Stderr = 2
)

// The ops of messages: see the package's comment.
const (
	opStart   = "start"
	opStarted = "started"
	opRefused = "refused"
	opInput   = "input"
	opEOF     = "eof"
	opOutput  = "output"
	opTaken   = "taken"
	opSignal  = "signal"
	opResize  = "resize"
	opEnded   = "ended"
	opClosed  = "closed"
)

// Command is a program to start.
type Command struct {
	// Argv are the program and its arguments. A program without a slash is looked up in the PATH of Env.
	Argv []string `json:"argv"`
	// Env is the environment. Without HOME, USER, LOGNAME or PATH it gets the user's.
	Env []string `json:"env,omitempty"`
	// Dir is the working directory. A relative one starts at the user's home. Empty: the home, or "/" if
	// it does not exist.
	Dir string `json:"dir,omitempty"`
	// User is a name or number, optionally with ":" and a group. Empty: the server's own.
	User string `json:"user,omitempty"`
	// Input opens the standard input as a pipe. Otherwise it is empty.
	Input bool `json:"input,omitempty"`
	// Terminal gives the program a terminal of this size as its input and output.
	Terminal *Size `json:"terminal,omitempty"`
}

// Size is the size of a terminal in characters.
type Size struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// Reason is why a program was refused.
type Reason string

// The reasons of a refusal.
const (
	NoProgram   Reason = "no_program"   // it does not exist
	NoDirectory Reason = "no_directory" // the working directory does not exist
	NoUser      Reason = "no_user"      // the user or the group does not exist
	Denied      Reason = "denied"       // the user may not execute it or enter the directory
	NoRoom      Reason = "no_room"      // the limit of processes, files or memory
	Unusable    Reason = "unusable"     // anything else, for example a file that is no program
)

// Refusal is the error of a program that could not be started.
type Refusal struct {
	Reason  Reason
	Message string // for the user; names the value that is at fault
}

func (r *Refusal) Error() string { return r.Message }

// Status is how a program ended.
type Status struct {
	Code   int     // of exit; -1 if a signal ended it
	Signal int     // that ended it; 0: none
	CPUMS  float64 // CPU time of the program and its reaped children
}

// message is a message in either direction.
type message struct {
	Op      string   `json:"op"`
	ID      uint32   `json:"id"`
	Load    int      `json:"load,omitempty"`
	Command *Command `json:"command,omitempty"`
	Stream  int      `json:"stream,omitempty"`
	Bytes   int      `json:"bytes,omitempty"`
	Signal  int      `json:"signal,omitempty"`
	Tree    bool     `json:"tree,omitempty"`
	Rows    uint16   `json:"rows,omitempty"`
	Columns uint16   `json:"columns,omitempty"`
	PID     int      `json:"pid,omitempty"`
	Reason  Reason   `json:"reason,omitempty"`
	Error   string   `json:"error,omitempty"`
	Code    int      `json:"code,omitempty"`
	CPUMS   float64  `json:"cpu_ms,omitempty"`
}

// errLong is wrapped by the error for a message that cannot be sent.
var errLong = errors.New("too long for a message")

// sender writes messages to a stream. It is safe for concurrent use.
type sender struct {
	mu sync.Mutex
	w  io.Writer
}

// send writes one message with its load, in one call of Write.
func (s *sender) send(m message, load []byte) error {
	m.Load = len(load)
	b, err := frame.Encode(&m, maxMessage)
	if err != nil {
		return fmt.Errorf("%w: %w", errLong, err)
	}
	b = append(b, load...)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.w.Write(b)
	return err
}

// receive reads one message of at most most bytes of JSON, and its load into buf, which has MaxLoad
// bytes.
func receive(r *bufio.Reader, most int, buf []byte) (m message, load []byte, err error) {
	if err := frame.Decode(r, &m, most); err != nil {
		return m, nil, err
	}
	if m.Load < 0 || m.Load > MaxLoad {
		return m, nil, fmt.Errorf("%w: a load of %d bytes", frame.ErrProtocol, m.Load)
	}
	load = buf[:m.Load]
	_, err = io.ReadFull(r, load)
	return m, load, err
}
