package processes

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is a started program in the sandbox.
type program struct {
	server *Server
	id     uint32
	pid    int
	mark   string      // in the environment of its processes
	end    chan Status // gets its end

	terminal *os.File // the worker's side of its terminal; nil: none
	outputs  []*output
	input    *input
	room     *room // for output
}

// run passes the program's output and end to the worker.
func (p *program) run() {
	var pumps sync.WaitGroup
	for _, o := range p.outputs {
		pumps.Go(o.run)
	}
	go p.input.run()
	status := <-p.end
	for _, o := range p.outputs { // the end comes after all that the program has written
		o.drain()
	}
	ended := message{Op: opEnded, ID: p.id, Signal: status.Signal, CPUMS: status.CPUMS}
	if status.Signal == 0 {
		ended.Code = status.Code
	}
	_ = p.server.out.send(ended, nil)
	p.input.end()
	pumps.Wait()
	p.input.abandon()
	p.server.forget(p.id)
	_ = p.server.out.send(message{Op: opClosed, ID: p.id}, nil)
}

// resize sets the size of the program's terminal.
func (p *program) resize(s Size) {
	if p.terminal != nil {
		_ = control(p.terminal, func(fd int) error {
			return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Columns})
		})
	}
}

// control calls f with a file's descriptor, which stays non-blocking.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = f(int(fd)) }); err != nil {
		return err
	}
	return done
}

// room is the window of a program's output.
type room struct {
	mu    sync.Mutex
	given *sync.Cond
	left  int
}

func newRoom(bytes int) *room {
	r := &room{left: bytes}
	r.given = sync.NewCond(&r.mu)
	return r
}

// take waits for room and takes at most most bytes of it.
func (r *room) take(most int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.left == 0 {
		r.given.Wait()
	}
	n := min(most, r.left)
	r.left -= n
	return n
}

// give returns room.
func (r *room) give(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += max(bytes, 0)
	r.given.Broadcast()
}

// output passes one stream of a program's output to the worker.
type output struct {
	program *program
	stream  int
	file    *os.File
	drains  chan struct{} // closed when the stream must be passed on as far as it is written
	drained chan struct{} // closed when it is
}

func newOutput(p *program, stream int, f *os.File) *output {
	return &output{program: p, stream: stream, file: f, drains: make(chan struct{}), drained: make(chan struct{})}
}

// drain returns when all present data has been sent.
func (o *output) drain() {
	close(o.drains)
	_ = o.file.SetReadDeadline(time.Unix(1, 0)) // wakes run, which then reads without waiting
	<-o.drained
}

// run sends the stream until no process can write to it any more.
func (o *output) run() {
	defer o.file.Close()
	drained := false
	reach := func() {
		if !drained {
			drained = true
			close(o.drained)
		}
	}
	defer reach()
	buf := make([]byte, MaxLoad)
	for {
		var n int
		var err error
		select {
		case <-o.drains:
			if drained {
				if n, err = o.file.Read(buf); os.IsTimeout(err) { // drain set the deadline late
					err = o.file.SetReadDeadline(time.Time{})
				}
				break
			}
			if n, err = readNow(o.file, buf); err == unix.EAGAIN {
				_ = o.file.SetReadDeadline(time.Time{})
				reach()
				err = nil
			}
		default:
			n, err = o.file.Read(buf)
			if os.IsTimeout(err) { // drain was called
				err = nil
			}
		}
		if n > 0 && o.send(buf[:n]) != nil {
			return
		}
		if err != nil { // io.EOF, or EIO: all sides of the terminal are closed
			return
		}
	}
}

// send sends data when the worker has room for it.
func (o *output) send(data []byte) error {
	for len(data) > 0 {
		n := o.program.room.take(len(data))
		if err := o.program.server.out.send(message{Op: opOutput, ID: o.program.id, Stream: o.stream}, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// readNow reads without waiting. It returns EAGAIN if there is no data.
func readNow(f *os.File, buf []byte) (n int, err error) {
	failed := control(f, func(fd int) error {
		for {
			if n, err = unix.Read(fd, buf); err != unix.EINTR {
				return nil
			}
		}
	})
	if failed != nil {
		return 0, failed
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// endOfTransmission is the character that ends the input of a terminal at the start of a line.
const endOfTransmission = 4

// input passes the worker's data to a program's standard input or terminal.
type input struct {
	program *program
	file    *os.File // nil: the program has no input

	mu      sync.Mutex
	changed *sync.Cond
	queue   []byte
	ending  bool // after the queue
	dropped bool // nobody reads
}

func newInput(p *program, f *os.File) *input {
	i := &input{program: p, file: f, dropped: f == nil}
	i.changed = sync.NewCond(&i.mu)
	return i
}

// add queues data. The worker has taken room for it.
func (i *input) add(b []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dropped || i.ending {
		return i.program.server.out.send(message{Op: opTaken, ID: i.program.id, Bytes: len(b)}, nil)
	}
	if len(i.queue)+len(b) > Window {
		return errWindow
	}
	i.queue = append(i.queue, b...)
	i.changed.Signal()
	return nil
}

// end ends the input after the queued data.
func (i *input) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ending = true
	i.changed.Signal()
}

// abandon stops writing.
func (i *input) abandon() {
	if i.file != nil {
		_ = i.file.Close() // a Write returns
	}
}

// run writes the queue until its end.
func (i *input) run() {
	if i.file == nil {
		return
	}
	for {
		i.mu.Lock()
		for len(i.queue) == 0 && !i.ending {
			i.changed.Wait()
		}
		b := i.queue
		i.queue = nil
		i.mu.Unlock()
		if len(b) == 0 {
			i.close()
			return
		}
		if _, err := i.file.Write(b); err != nil { // nobody reads it any more
			i.mu.Lock()
			i.dropped = true
			i.mu.Unlock()
		}
		_ = i.program.server.out.send(message{Op: opTaken, ID: i.program.id, Bytes: len(b)}, nil)
	}
}

// close ends the input.
func (i *input) close() {
	if i.program.terminal == nil {
		_ = i.file.Close()
		return
	}
	_, _ = i.file.Write([]byte{endOfTransmission})
}

// dup returns a second descriptor of a non-blocking file.
func dup(f *os.File) (*os.File, error) {
	fd := -1
	err := control(f, func(old int) (err error) {
		fd, err = unix.FcntlInt(uintptr(old), syscall.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
