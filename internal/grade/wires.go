package grade

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// wire carries what one program says to another one. It goes through us: there is an end to it, the other one does not
// hear that the first has ended before we do, and what nobody takes any more is dropped.
type wire struct {
	says, hears *os.File // the programs' ends
	from, to    *os.File // ours
	ended       chan struct{}
	once        sync.Once
	relayed     sync.WaitGroup
}

func newWire() (*wire, error) {
	w := &wire{ended: make(chan struct{})}
	var err error
	if w.from, w.says, err = pipeOf(0); err != nil {
		return nil, err
	}
	if w.hears, w.to, err = pipeOf(1); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// relay begins to carry, up to so many bytes; the channel is closed when there are more.
func (w *wire) relay(most int64) <-chan struct{} {
	flood := make(chan struct{})
	w.relayed.Go(func() {
		copyUpTo(w.to, w.from, most, flood)
		<-w.ended
		_ = w.to.Close()
	})
	return flood
}

// end lets the other one hear that the one that speaks has ended.
func (w *wire) end() { w.once.Do(func() { close(w.ended) }) }

// close ends all of it.
func (w *wire) close() {
	w.end()
	for _, f := range []*os.File{w.says, w.hears, w.from, w.to} {
		if f != nil {
			_ = f.Close()
		}
	}
	w.relayed.Wait()
}

// copyUpTo copies until r ends. What w does not take any more is dropped; over is closed when it was more than most bytes,
// and then nothing more is copied.
func copyUpTo(w io.Writer, r io.Reader, most int64, over chan<- struct{}) {
	buf := make([]byte, 64<<10)
	for total := int64(0); ; {
		n, err := r.Read(buf)
		if total += int64(n); total > most {
			close(over)
			return
		}
		if w != nil && n > 0 {
			if _, failed := w.Write(buf[:n]); failed != nil {
				w = nil
			}
		}
		if err != nil {
			return
		}
	}
}

// pipeOf returns a pipe. The end that is ours, 0 to read and 1 to write, does not block; that of a program does, as programs expect it.
func pipeOf(ours int) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	if err := unix.SetNonblock(fds[ours], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a pipe: %w", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}
