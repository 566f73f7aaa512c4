package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/capture"
	"github.com/assay-run/assay/pkg/runtime/mask"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// streams are the standard streams of one program.
type streams struct {
	child    [3]*os.File // the program's ends
	ours     []*os.File
	out, err *capture.Buffer
	draining sync.WaitGroup
}

// keep limits the kept output of one program.
type keep struct{ out, err capture.Keep }

// keepAll keeps as much as the policy allows.
var keepAll = keep{capture.Keep{Bytes: policy.MaxOutput, InMemory: capture.MaxInMemory}, capture.Keep{Bytes: policy.MaxOutput, InMemory: capture.MaxInMemory}}

// storedBytes counts the stored bytes of output streams.
type storedBytes struct {
	out, err job.Size
	inMemory int
}

// add adds the streams of one more program.
func (k *storedBytes) add(more storedBytes) {
	k.out, k.err, k.inMemory = k.out+more.out, k.err+more.err, k.inMemory+more.inMemory
}

const (
	// stepOutput is the minimum kept bytes of each step's stream, regardless of earlier steps.
	stepOutput = 64 * job.KiB
	// stepsInMemory is the most bytes of all steps' outputs in memory. After that, outputs of further
	// steps go to files above stepInMemory.
	stepsInMemory = 2 << 20
	stepInMemory  = 16 << 10
)

// keepOfStep limits the kept output of the i-th step. All steps of a job keep at most
// policy.MaxOutput of each stream.
func keepOfStep(steps, i int, before storedBytes) keep {
	most, k := policy.MaxOutput-job.Size(steps-i-1)*stepOutput, keepAll
	k.out.Bytes, k.err.Bytes = most-before.out, most-before.err
	if before.inMemory > stepsInMemory {
		k.out.InMemory, k.err.InMemory = stepInMemory, stepInMemory
	}
	return k
}

// openStreams creates the standard streams. They belong to host user uid, so that a program may
// open /dev/stdout.
func openStreams(p *Program, null string, uid int, stop *stopper, m *mask.Mask) (_ *streams, err error) {
	s := &streams{
		out: capture.NewKeeping(p.Limits.Stdout.Limit, p.keep.out, onExceed(p.Limits.Stdout, stop, stopStdout)),
		err: capture.NewKeeping(p.Limits.Stderr.Limit, p.keep.err, onExceed(p.Limits.Stderr, stop, stopStderr)),
	}
	defer func() {
		if err != nil {
			s.closeChildFiles()
			s.close()
		}
	}()
	if s.child[0], err = stdin(p, null, uid); err != nil {
		return nil, err
	}
	if p.out != nil {
		s.child[1], err = p.out, shared(p.out)
	} else {
		err = s.open(1, tee(s.out, p.output), uid, m, p.toll)
	}
	if err != nil {
		return nil, err
	}
	return s, s.open(2, s.err, uid, m, p.toll)
}

// open creates a stream that the program writes to, and drains it into w at the program's expense.
func (s *streams) open(fd int, w io.Writer, uid int, m *mask.Mask, paid *toll.Meter) error {
	r, theirs, err := pipe(uid)
	if err != nil {
		return err
	}
	s.child[fd], s.ours = theirs, append(s.ours, r)
	from, err := newPipeReader(r, paid)
	if err != nil {
		return err
	}
	s.draining.Go(func() { drain(w, from, m, paid) })
	return nil
}

// stdin returns the program's end of its standard input.
func stdin(p *Program, null string, uid int) (*os.File, error) {
	switch {
	case p.in != nil:
		return p.in, shared(p.in)
	case len(p.stdin) > 0:
		return ContentFile("stdin", p.stdin, uid)
	}
	return OpenDevice(null)
}

// shared lets the programs at both ends open a pipe by name, such as /dev/stdin, although they have
// different users.
func shared(f *os.File) error {
	if err := f.Chmod(0o666); err != nil {
		return fmt.Errorf("share a pipe: %w", err)
	}
	return nil
}

// tee writes to a buffer and, if there is one, to another writer.
func tee(b *capture.Buffer, other io.Writer) io.Writer {
	if other == nil {
		return b
	}
	return io.MultiWriter(b, other)
}

// OpenDevice opens a device for reading. It must not be polled.
func OpenDevice(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// drain copies the stream until the program has ended, or until the deadline of finish.
func drain(to io.Writer, from *pipeReader, m *mask.Mask, paid *toll.Meter) {
	if m == nil {
		_ = capture.Drain(toll.Writer(to, paid), from)
		return
	}
	// Mask before the buffer cuts the stream, because the mask does not recognize half a value.
	w := m.Writer(to)
	_ = capture.Drain(toll.Writer(w, paid), from)
	_ = w.Close()
}

func onExceed(limit policy.Stream, stop *stopper, why stopReason) func() {
	if limit.OnExceed != policy.Kill {
		return nil
	}
	return func() { stop.now(why) }
}

// childFiles lists the program's descriptors in order.
func (s *streams) childFiles(more []*os.File) []*os.File { return append(s.child[:], more...) }

func (s *streams) closeChildFiles() {
	for i, f := range s.child {
		if f != nil {
			_ = f.Close()
		}
		s.child[i] = nil
	}
}

// finish reads the rest of the pipes. Every writer has ended, so this is quick. The deadline is for
// a kernel that has not reaped the last writer yet.
func (s *streams) finish(e *Exit) {
	for _, f := range s.ours {
		_ = f.SetReadDeadline(time.Now().Add(drainTime))
	}
	s.draining.Wait()
	e.stdout, e.stderr = s.out.Output(), s.err.Output()
	e.kept = storedBytes{out: s.out.Size(), err: s.err.Size(), inMemory: len(e.stdout.Text) + len(e.stderr.Text)}
}

// tail is the program's runtime.Tail.
func (s *streams) tail(stream int, offset int64, most int) (at int64, data []byte) {
	if stream == 2 {
		return s.err.From(offset, most)
	}
	return s.out.From(offset, most)
}

func (s *streams) close() {
	for _, f := range s.ours {
		_ = f.Close()
	}
	s.draining.Wait()
}

// pipe returns our end for reading and the program's for writing. Only ours is non-blocking, as
// programs expect.
func pipe(uid int) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	err = errors.Join(unix.SetNonblock(fds[0], true), unix.Fchown(fds[1], uid, uid))
	r, w = os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")
	if err != nil {
		_, _ = r.Close(), w.Close()
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	return r, w, nil
}

// ContentFile returns a read-only file in memory with data.
func ContentFile(name string, data []byte, uid int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return nil, fmt.Errorf("fill %s: %w", name, err)
	}
	if err := f.Chown(uid, uid); err != nil {
		return nil, fmt.Errorf("own %s: %w", name, err)
	}
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd)) // a separate offset, and no way to write
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return r, nil
}
