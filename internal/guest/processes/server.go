package processes

import (
	"bufio"
	"fmt"
	"io"
	"sync"

	"github.com/assay-run/assay/internal/frame"
)

// Server starts programs for the worker, in the sandbox.
type Server struct {
	out    sender
	reaper *reaper

	mu       sync.Mutex
	programs map[uint32]*program
}

// Serve handles the worker's messages until the stream ends. The calling process must have no other
// children, and programs must not inherit the stream. Programs that still run are the caller's concern: process 1 of a pid namespace only has
// to exit.
func Serve(conn io.ReadWriter) error {
	s := &Server{out: sender{w: conn}, reaper: newReaper(), programs: map[uint32]*program{}}
	go s.reaper.run()
	in, buf := bufio.NewReader(conn), make([]byte, MaxLoad)
	for {
		m, load, err := receive(in, maxMessage, buf)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.handle(m, load); err != nil {
			return err
		}
	}
}

// handle handles one message. It must not block.
func (s *Server) handle(m message, load []byte) error {
	if m.Op == opStart {
		if m.Command == nil || len(m.Command.Argv) == 0 {
			return fmt.Errorf("%w: a start without a program", frame.ErrProtocol)
		}
		return s.start(m.ID, m.Command)
	}
	s.mu.Lock()
	p := s.programs[m.ID]
	s.mu.Unlock()
	if p == nil { // it has just ended
		return nil
	}
	switch m.Op {
	case opInput:
		return p.input.add(load)
	case opEOF:
		p.input.end()
	case opTaken:
		p.room.give(m.Bytes)
	case opSignal:
		go p.signal(m.Signal, m.Tree)
	case opResize:
		p.resize(Size{m.Rows, m.Columns})
	default:
		return fmt.Errorf("%w: op %.40q", frame.ErrProtocol, m.Op)
	}
	return nil
}

// start starts a program and reports it.
func (s *Server) start(id uint32, c *Command) error {
	p, refusal := s.begin(id, c)
	if refusal != nil {
		text := refusal.Message
		if len(text) > maxError {
			text = text[:maxError]
		}
		return s.out.send(message{Op: opRefused, ID: id, Reason: refusal.Reason, Error: text}, nil)
	}
	err := s.out.send(message{Op: opStarted, ID: id, PID: p.pid}, nil)
	go p.run()
	return err
}

// forget removes a program whose last message was sent.
func (s *Server) forget(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.programs, id)
}
