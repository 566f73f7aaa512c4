package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/assay-run/assay/internal/frame"
)

// ErrGone is wrapped by the errors of a Client whose stream has ended.
var ErrGone = errors.New("the sandbox has ended")

// Client is the worker's side of a Server. Its methods are safe for concurrent use.
type Client struct {
	out  sender
	gone chan struct{} // closed when the stream has ended

	mu    sync.Mutex
	last  uint32
	live  map[uint32]*Process
	cause error // why the stream ended; set before gone is closed
}

// NewClient returns a Client of the server behind conn. The caller runs Run.
func NewClient(conn io.Writer) *Client {
	return &Client{out: sender{w: conn}, gone: make(chan struct{}), live: map[uint32]*Process{}}
}

// Run handles the server's messages, which it reads from conn, until the stream ends. An error that
// wraps frame.ErrProtocol means that the server broke the protocol. Run returns nil at the end of the
// stream. Afterwards every process has ended, as far as the Client knows, with an error.
func (c *Client) Run(conn io.Reader) error {
	in, buf := bufio.NewReader(conn), make([]byte, MaxLoad)
	for {
		m, load, err := receive(in, maxReport, buf)
		if err == nil {
			err = c.handle(m, load)
		}
		if err != nil {
			c.end(err)
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// end ends all processes for lack of a server.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cause = ErrGone
	if err != io.EOF {
		c.cause = fmt.Errorf("%w: %w", ErrGone, err)
	}
	close(c.gone)
}

// Gone returns a channel that is closed when the stream has ended.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Start starts a program. Its output goes to sink, which must not block for long, because it delays
// all programs of the sandbox. The data is valid until sink returns. The server sends at most Window
// bytes of output before the caller reports with Process.Taken that it has handled them.
//
// The error is a *Refusal if the program could not be started, and wraps ErrGone if the sandbox has
// ended. If ctx ends first, the program is killed as soon as it has started.
func (c *Client) Start(ctx context.Context, command Command, sink func(p *Process, stream int, data []byte)) (*Process, error) {
	p := &Process{
		client: c, sink: sink, room: Window, given: make(chan struct{}, 1), answer: make(chan *Refusal, 1),
		ended: make(chan struct{}), closed: make(chan struct{}),
	}
	c.mu.Lock()
	c.last++
	p.id = c.last
	c.live[p.id] = p
	c.mu.Unlock()
	if err := c.out.send(message{Op: opStart, ID: p.id, Command: &command}, nil); err != nil {
		c.drop(p)
		if errors.Is(err, errLong) {
			return nil, &Refusal{Unusable, fmt.Sprintf("the arguments and environment are too long: they have more than %d bytes", maxMessage)}
		}
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	select {
	case refusal := <-p.answer:
		if refusal != nil {
			c.drop(p)
			return nil, refusal
		}
		return p, nil
	case <-c.gone:
		return nil, c.cause
	case <-ctx.Done():
		go func() {
			select {
			case refusal := <-p.answer:
				if refusal != nil {
					c.drop(p)
					return
				}
				_ = p.Signal(int(syscall.SIGKILL), true)
			case <-c.gone:
			}
		}()
		return nil, ctx.Err()
	}
}

func (c *Client) drop(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.live, p.id)
}

// handle handles one message of the server.
func (c *Client) handle(m message, load []byte) error {
	c.mu.Lock()
	p := c.live[m.ID]
	c.mu.Unlock()
	if p == nil && m.Op == opTaken { // of input after the program's end
		return nil
	}
	if p == nil {
		return fmt.Errorf("%w: op %.40q about an unknown program", frame.ErrProtocol, m.Op)
	}
	switch m.Op {
	case opStarted, opRefused:
		return p.answered(m)
	case opTaken:
		p.give(m.Bytes)
		return nil
	case opOutput:
		return p.output(m.Stream, load)
	case opEnded:
		return p.end(m)
	case opClosed:
		select {
		case <-p.ended:
		default:
			return fmt.Errorf("%w: a program is closed before its end", frame.ErrProtocol)
		}
		c.drop(p)
		close(p.closed)
		return nil
	}
	return fmt.Errorf("%w: op %.40q", frame.ErrProtocol, m.Op)
}

// Process is a program in the sandbox. Its methods are safe for concurrent use, except Write.
type Process struct {
	client *Client
	id     uint32
	sink   func(p *Process, stream int, data []byte)
	answer chan *Refusal
	ended  chan struct{}
	closed chan struct{}
	given  chan struct{} // has a token when room was given

	mu       sync.Mutex
	answers  int
	pid      int
	room     int // for input
	pending  int // bytes of output that were not taken
	status   Status
	finished bool
}

// PID returns the program's number in the sandbox.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Write sends data to the program's standard input or terminal. It waits while the program does not
// read. Data for a program that reads no more is dropped.
func (p *Process) Write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		p.mu.Lock()
		n := min(len(data), p.room, MaxLoad)
		p.room -= n
		p.mu.Unlock()
		if n == 0 {
			select {
			case <-p.given:
			case <-p.ended:
				return nil
			case <-p.client.gone:
				return p.client.cause
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := p.send(message{Op: opInput}, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// CloseInput ends the program's input after all written data.
func (p *Process) CloseInput() error { return p.send(message{Op: opEOF}, nil) }

// Signal sends a signal to the program, or to all processes of its tree.
func (p *Process) Signal(signal int, tree bool) error {
	return p.send(message{Op: opSignal, Signal: signal, Tree: tree}, nil)
}

// Resize sets the size of the program's terminal, if it has one.
func (p *Process) Resize(s Size) error {
	return p.send(message{Op: opResize, Rows: s.Rows, Columns: s.Columns}, nil)
}

// Taken reports that bytes of output were handled. Then the server may send as many more.
func (p *Process) Taken(bytes int) error {
	p.mu.Lock()
	p.pending -= bytes
	p.mu.Unlock()
	return p.send(message{Op: opTaken, Bytes: bytes}, nil)
}

// Ended returns a channel that is closed when the program has ended and sink has all output that it
// had written.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Closed returns a channel that is closed when no process can write to the output any more.
func (p *Process) Closed() <-chan struct{} { return p.closed }

// Wait waits for the program's end. Its error wraps ErrGone if the sandbox has ended before.
func (p *Process) Wait(ctx context.Context) (Status, error) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		return Status{}, ctx.Err()
	case <-p.client.gone:
		select {
		case <-p.ended:
		default:
			return Status{}, p.client.cause
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, nil
}

func (p *Process) send(m message, load []byte) error {
	m.ID = p.id
	if err := p.client.out.send(m, load); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}

func (p *Process) answered(m message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers++; p.answers > 1 {
		return fmt.Errorf("%w: a program starts twice", frame.ErrProtocol)
	}
	p.pid = m.PID
	if m.Op == opStarted {
		p.answer <- nil
		return nil
	}
	p.answer <- &Refusal{m.Reason, clip(m.Error)}
	return nil
}

// clip bounds a text of the server.
func clip(s string) string {
	if len(s) > maxError {
		return s[:maxError]
	}
	return s
}

// give adds room for input.
func (p *Process) give(bytes int) {
	p.mu.Lock()
	p.room = min(p.room+max(bytes, 0), Window)
	p.mu.Unlock()
	select {
	case p.given <- struct{}{}:
	default:
	}
}

func (p *Process) output(stream int, data []byte) error {
	p.mu.Lock()
	p.pending += len(data)
	beyond := p.pending > Window
	p.mu.Unlock()
	if stream != Stdout && stream != Stderr {
		return fmt.Errorf("%w: stream %d", frame.ErrProtocol, stream)
	}
	if beyond {
		return fmt.Errorf("%w: more output than its window", frame.ErrProtocol)
	}
	p.sink(p, stream, data)
	return nil
}

func (p *Process) end(m message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished || p.answers == 0 {
		return fmt.Errorf("%w: an end of a program that does not run", frame.ErrProtocol)
	}
	p.finished = true
	p.status = Status{Code: m.Code, Signal: m.Signal, CPUMS: m.CPUMS}
	if m.Signal != 0 {
		p.status.Code = -1
	}
	close(p.ended)
	return nil
}
