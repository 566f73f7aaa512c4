package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/guest/processes"
	"github.com/assay-run/assay/internal/worker/journal"
)

// Reason is why an execution ended.
type Reason string

// The reasons.
const (
	Exited      Reason = "exited"        // by itself, with an exit code
	Signaled    Reason = "signaled"      // by a signal that was sent in the sandbox or by the client
	TimedOut    Reason = "timed_out"     // at its limit
	OutOfMemory Reason = "out_of_memory" // the kernel killed it at the sandbox's memory limit
	Lost        Reason = "lost"          // the sandbox ended first
)

// End is how an execution ended: the data of its journal's last entry, in JSON.
type End struct {
	Reason   Reason  `json:"reason"`
	ExitCode *int    `json:"exit_code,omitempty"` // only of a command that exited
	Signal   string  `json:"signal,omitempty"`    // the name of the signal that ended it, such as SIGKILL
	Message  string  `json:"message"`             // for people: what happened, with the limit if there was one
	WallMS   float64 `json:"wall_ms"`
	CPUMS    float64 `json:"cpu_ms"`
	// OOMKills is how many processes of the sandbox the kernel killed at its memory limit meanwhile. If
	// it is not 0, the exit code may be a consequence.
	OOMKills int64 `json:"oom_kills,omitempty"`
	// LostBytes of output could not be stored on the worker's disk.
	LostBytes int64 `json:"lost_bytes,omitempty"`
}

// Execution is one command in a sandbox. Its methods are safe for concurrent use, except Write.
type Execution struct {
	Spec
	Journal *journal.Journal

	sandbox *Sandbox
	started chan struct{} // closed when it runs or was refused
	failure error         // why it was refused
	over    chan struct{} // closed after the end
	process *processes.Process
	began   time.Time
	kills   int64 // OOM kills before it

	mu    sync.Mutex
	timed bool // it was killed at its limit
	lost  int64
	end   *End
}

// begin starts the command.
func (e *Execution) begin(ctx context.Context) (err error) {
	if u, err := e.sandbox.machine.Usage(); err == nil {
		e.kills = u.OOMKills
	}
	e.began = time.Now()
	e.process, err = e.sandbox.client.Start(ctx, e.Command, e.store)
	if errors.Is(err, processes.ErrGone) {
		return fmt.Errorf("%w: %s", processes.ErrGone, e.sandbox.gone())
	}
	return err
}

// store writes output to the journal. Output of processes that outlive the command is dropped.
func (e *Execution) store(p *processes.Process, stream int, data []byte) {
	kind := journal.Stdout
	switch {
	case e.Command.Terminal != nil:
		kind = journal.Terminal
	case stream == processes.Stderr:
		kind = journal.Stderr
	}
	if err := e.Journal.Append(kind, data); err != nil && !errors.Is(err, journal.ErrEnded) { // readers see a gap
		e.mu.Lock()
		e.lost += int64(len(data))
		e.mu.Unlock()
	}
	_ = p.Taken(len(data))
}

// run waits for the end and records it.
func (e *Execution) run() {
	defer close(e.over)
	defer e.sandbox.finish(e)
	if e.Limit > 0 {
		limit := time.AfterFunc(time.Until(e.began.Add(e.Limit)), func() {
			e.mu.Lock()
			e.timed = true
			e.mu.Unlock()
			_ = e.process.Signal(int(syscall.SIGKILL), true)
		})
		defer limit.Stop()
	}
	status, err := e.process.Wait(context.Background())
	end := e.judge(status, err)
	e.mu.Lock()
	e.end = end
	e.mu.Unlock()
	text, _ := json.Marshal(end) // it has no value that JSON lacks
	_ = e.Journal.Finish(text)   // once, and before its removal
}

// judge returns the end for a status, or for an error of the sandbox.
func (e *Execution) judge(s processes.Status, err error) *End {
	e.mu.Lock()
	timed := e.timed
	end := &End{WallMS: float64(time.Since(e.began)) / 1e6, CPUMS: s.CPUMS, LostBytes: e.lost}
	e.mu.Unlock()
	killed := syscall.Signal(s.Signal) == syscall.SIGKILL
	if err != nil || killed && e.sandbox.closing() {
		end.Reason, end.Message = Lost, "the sandbox ended before the command: "+e.sandbox.gone()
		return end
	}
	if u, err := e.sandbox.machine.Usage(); err == nil {
		end.OOMKills = u.OOMKills - e.kills
	}
	if s.Signal == 0 {
		end.Reason, end.ExitCode, end.Message = Exited, &s.Code, fmt.Sprintf("it exited with code %d", s.Code)
		if end.OOMKills > 0 {
			end.Message += fmt.Sprintf("; meanwhile the kernel killed %d processes of the sandbox at its memory limit", end.OOMKills)
		}
		return end
	}
	end.Signal = unix.SignalName(syscall.Signal(s.Signal))
	if end.Signal == "" {
		end.Signal = fmt.Sprintf("SIG%d", s.Signal)
	}
	switch {
	case timed && killed:
		end.Reason, end.Message = TimedOut, fmt.Sprintf("it ran longer than its limit of %s and was killed with all its processes", e.Limit)
	case killed && end.OOMKills > 0:
		end.Reason, end.Message = OutOfMemory, "the kernel killed it at the memory limit of the sandbox"
	default:
		end.Reason, end.Message = Signaled, "the signal "+end.Signal+" ended it"
	}
	return end
}

// End returns the end, or nil while the command runs.
func (e *Execution) End() *End {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.end
}

// Over returns a channel that is closed after the end.
func (e *Execution) Over() <-chan struct{} { return e.over }

// PID returns the number of the command's process in the sandbox.
func (e *Execution) PID() int { return e.process.PID() }

// Write sends input: see processes.Process.Write.
func (e *Execution) Write(ctx context.Context, data []byte) error { return e.process.Write(ctx, data) }

// CloseInput ends the input.
func (e *Execution) CloseInput() error { return e.process.CloseInput() }

// Signal sends a signal to the command, or to all processes of its tree.
func (e *Execution) Signal(signal int, tree bool) error { return e.process.Signal(signal, tree) }

// Resize sets the size of the terminal.
func (e *Execution) Resize(s processes.Size) error { return e.process.Resize(s) }
