package sandbox

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/toll"
)

// mostBuffered is the most bytes in a program's pipe: the kernel's usual fs.pipe-max-size.
const mostBuffered = 1 << 20

// pipeReader reads a pipe with a deadline. A worker without a core may read for the first time
// after the deadline, when os.File reads nothing. A pipeReader still returns the bytes in the pipe.
type pipeReader struct {
	*os.File
	paid *toll.Reader // reads from the same pipe and charges the program
	late int          // bytes read after the deadline
}

// newPipeReader returns a reader of a pipe that charges for its bytes.
func newPipeReader(r *os.File, m *toll.Meter) (*pipeReader, error) {
	paid, err := toll.NewReader(r, m)
	if err != nil {
		return nil, err
	}
	return &pipeReader{File: r, paid: paid}, nil
}

// Read implements io.Reader. After the deadline, it returns io.EOF at the end of the stream, and
// os.ErrDeadlineExceeded when the pipe is empty or after mostBuffered bytes.
func (r *pipeReader) Read(b []byte) (int, error) {
	n, err := r.paid.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) || r.late >= mostBuffered {
		return n, err
	}
	n, e := r.readNow(b)
	switch {
	case e != nil || len(b) == 0: // empty, or closed meanwhile
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	r.late += n
	return n, nil
}

// readNow reads without waiting.
func (r *pipeReader) readNow(b []byte) (n int, err error) {
	raw, err := r.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) {
		for {
			if n, err = unix.Read(int(fd), b); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return max(n, 0), errors.Join(failed, err)
}
