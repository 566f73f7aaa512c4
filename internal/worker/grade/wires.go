package grade

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/toll"
)

// wire relays one program's output to another through the worker. So its size is limited, the
// worker sees the end of the first program before the other does, and unread data is dropped.
type wire struct {
	says, hears *os.File // the programs' ends
	from, to    *os.File // the worker's ends
	ended       chan struct{}
	once        sync.Once
	relayed     sync.WaitGroup
	toll        *toll.Meter // of the job, which pays for the work
}

func newWire(paid *toll.Meter) (*wire, error) {
	w := &wire{ended: make(chan struct{}), toll: paid}
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

// relay starts to copy up to most bytes. It closes the returned channel when there are more.
func (w *wire) relay(most int64) <-chan struct{} {
	flood := make(chan struct{})
	w.relayed.Go(func() {
		if from, err := toll.NewReader(w.from, w.toll); err == nil {
			copyUpTo(toll.Writer(w.to, w.toll), from, most, flood)
		}
		<-w.ended
		_ = w.to.Close()
	})
	return flood
}

// end signals the end of the writing program to the other.
func (w *wire) end() { w.once.Do(func() { close(w.ended) }) }

// close closes all ends.
func (w *wire) close() {
	w.end()
	for _, f := range []*os.File{w.says, w.hears, w.from, w.to} {
		if f != nil {
			_ = f.Close()
		}
	}
	w.relayed.Wait()
}

// copyUpTo copies until r ends. It drops data that w does not accept. After most bytes it closes
// over and copies no more.
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

// pipeOf returns a pipe. ours selects the worker's end, 0 to read and 1 to write, which does not
// block. The program's end blocks, as programs expect.
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
