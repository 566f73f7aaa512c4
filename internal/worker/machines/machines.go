// Package machines runs commands in the sandboxes of agents on one worker.
//
// A Sandbox is a runtime.Machine with the executions of its commands. The output of an execution goes
// to a journal on the worker's disk, so a client that was disconnected reads on from any entry. An
// execution ends once, with one End that says why: it has an exit code only if the command exited.
package machines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/internal/guest/processes"
	"github.com/assay-run/assay/internal/worker/journal"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// Config holds the limits of a Sandbox.
type Config struct {
	Dir      string // an existing directory for journals, used by nobody else
	Journal  int64  // bytes of each journal on the disk
	Running  int    // the most running executions
	Finished int    // the most finished executions that are kept; older ones are removed
}

// Sandbox is a machine with its executions. Its methods are safe for concurrent use.
type Sandbox struct {
	Config
	machine runtime.Machine
	client  *processes.Client
	over    chan struct{} // closed when the machine's stream has ended

	mu         sync.Mutex
	made       int // executions so far
	executions map[string]*Execution
	finished   []string // ids, oldest first
	running    int
	closed     bool
	why        string // the machine ended; for messages
}

// New returns the Sandbox of a machine, which it closes with itself.
func New(m runtime.Machine, c Config) *Sandbox {
	s := &Sandbox{
		Config: c, machine: m, client: processes.NewClient(m.Conn()), over: make(chan struct{}), executions: map[string]*Execution{},
		why: "the first process of the sandbox ended",
	}
	go func() {
		defer close(s.over)
		if err := s.client.Run(m.Conn()); errors.Is(err, frame.ErrProtocol) && !errors.Is(err, frame.ErrCut) { // otherwise it was killed
			s.blame("the sandbox broke the protocol: " + err.Error())
		}
	}()
	return s
}

// blame records why the machine ended, unless it was closed on purpose.
func (s *Sandbox) blame(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.why = why
	}
}

// Over returns a channel that is closed when the machine has ended.
func (s *Sandbox) Over() <-chan struct{} { return s.over }

// Usage returns what the machine uses.
func (s *Sandbox) Usage() (runtime.MachineUsage, error) { return s.machine.Usage() }

// Close ends the machine and its executions, for a reason that their ends name, and removes the
// journals. It waits for the ends.
func (s *Sandbox) Close(why string) {
	s.mu.Lock()
	if !s.closed {
		s.closed, s.why = true, why
	}
	s.mu.Unlock()
	s.machine.Close()
	<-s.over
	s.mu.Lock()
	all := slices.Collect(func(yield func(*Execution) bool) {
		for _, e := range s.executions {
			if !yield(e) {
				return
			}
		}
	})
	s.mu.Unlock()
	for _, e := range all {
		<-e.over
		e.remove()
	}
}

// Spec is a command to execute.
type Spec struct {
	// ID names the execution in the sandbox. Starting it again returns the existing execution, so a
	// client may repeat a request whose response was lost.
	ID      string
	Command processes.Command
	// Limit is the longest time until the command and its whole tree are killed; 0: none.
	Limit time.Duration
}

// Start starts an execution, or returns the one that has its ID. The error is a *processes.Refusal if
// the command cannot be started, and wraps job.ErrTooMany if too many run.
func (s *Sandbox) Start(ctx context.Context, spec Spec) (*Execution, error) {
	e, fresh, err := s.reserve(spec)
	if err != nil {
		return nil, err
	}
	if !fresh {
		select {
		case <-e.started:
			return e, e.failure
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer close(e.started)
	if e.failure = e.begin(ctx); e.failure != nil {
		close(e.over)
		s.forget(e)
		return nil, e.failure
	}
	go e.run()
	return e, nil
}

// reserve returns a new execution, or the existing one with this ID.
func (s *Sandbox) reserve(spec Spec) (e *Execution, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.executions[spec.ID]; e != nil {
		return e, false, nil
	}
	if s.running >= s.Running {
		return nil, false, fmt.Errorf("%w: %d commands run in the sandbox, which is its limit: wait for one or signal it", job.ErrTooMany, s.running)
	}
	s.made++
	j, err := journal.Create(filepath.Join(s.Dir, strconv.Itoa(s.made)), s.Journal)
	if err != nil {
		return nil, false, err
	}
	e = &Execution{Spec: spec, Journal: j, sandbox: s, started: make(chan struct{}), over: make(chan struct{})}
	s.executions[spec.ID] = e
	s.running++
	return e, true, nil
}

// forget removes an execution that did not start.
func (s *Sandbox) forget(e *Execution) {
	s.mu.Lock()
	delete(s.executions, e.ID)
	s.running--
	s.mu.Unlock()
	e.remove()
}

// finish counts an execution as finished, and removes those that are too many.
func (s *Sandbox) finish(e *Execution) {
	s.mu.Lock()
	s.running--
	s.finished = append(s.finished, e.ID)
	var old []*Execution
	for len(s.finished) > s.Finished {
		old = append(old, s.executions[s.finished[0]])
		delete(s.executions, s.finished[0])
		s.finished = s.finished[1:]
	}
	s.mu.Unlock()
	for _, e := range old {
		e.remove()
	}
}

// Execution returns an execution. The error wraps job.ErrNotFound.
func (s *Sandbox) Execution(id string) (*Execution, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.executions[id]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("%w: the sandbox has no execution %q; it keeps the last %d that have finished", job.ErrNotFound, id, s.Finished)
}

// closing reports whether Close was called.
func (s *Sandbox) closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// gone returns why the machine ended.
func (s *Sandbox) gone() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// remove deletes the journal.
func (e *Execution) remove() {
	if err := e.Journal.Remove(); err != nil {
		slog.Warn("journal of an execution not removed", "execution", e.ID, "error", err)
	}
}
