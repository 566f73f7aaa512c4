// Package capture keeps the head and the tail of an output stream while it
// drains all of it, so that a program can write without end and neither it nor
// the worker is slowed down or grows.
package capture

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// Buffer collects one stream. It holds at most its limit, in two halves.
// Write and Output may be called from different goroutines.
type Buffer struct {
	mu     sync.Mutex
	limit  int
	head   []byte
	tail   []byte // a ring once it is full; next is its oldest byte
	next   int
	total  int64
	exceed func()
}

// New returns a Buffer that keeps limit bytes. exceed, if not nil, is called
// once, when the stream passes the limit; it must not block.
func New(limit job.Size, exceed func()) *Buffer {
	return &Buffer{limit: int(max(limit, 0)), exceed: exceed}
}

// Write takes all of p; it never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	before := b.total
	b.total += int64(len(p))
	passed := before <= int64(b.limit) && b.total > int64(b.limit)
	b.keep(p)
	b.mu.Unlock()
	if passed && b.exceed != nil {
		b.exceed()
	}
	return len(p), nil
}

// Skip counts n bytes of the stream that are not there to be written any more.
func (b *Buffer) Skip(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total += max(n, 0)
}

// keep fills the head first and then overwrites the tail from its oldest byte.
func (b *Buffer) keep(p []byte) {
	headMax := b.limit - b.limit/2
	n := min(headMax-len(b.head), len(p))
	b.head = append(b.head, p[:n]...)
	p = p[n:]

	tailMax := b.limit / 2
	if len(p) > tailMax {
		p = p[len(p)-tailMax:]
	}
	n = min(tailMax-len(b.tail), len(p))
	b.tail = append(b.tail, p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(b.tail[b.next:], p)
		b.next = (b.next + n) % tailMax
	}
}

// From returns what is kept of the stream from an offset on, at most most bytes of it, and where
// that begins: later than asked for where what was there has been cut.
func (b *Buffer) From(offset int64, most int) (at int64, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	offset = max(offset, 0)
	if head := int64(len(b.head)); offset < head {
		return offset, slices.Clone(b.head[offset:min(head, offset+int64(most))])
	}
	begin := b.total - int64(len(b.tail)) // what Skip has left out is at the end, and nothing follows it
	if offset = max(offset, begin); offset >= b.total || len(b.tail) == 0 {
		return min(offset, b.total), nil
	}
	data = append(slices.Clone(b.tail[b.next:]), b.tail[:b.next]...)[offset-begin:]
	return offset, data[:min(len(data), most)]
}

// Output returns what was kept. A cut stream has a marker line between head and
// tail; bytes that are not UTF-8 are replaced.
func (b *Buffer) Output() job.Output {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := job.Output{Bytes: b.total}
	tail := append(append([]byte(nil), b.tail[b.next:]...), b.tail[:b.next]...)
	if b.total <= int64(b.limit) {
		out.Text = valid(append(append([]byte(nil), b.head...), tail...))
		return out
	}
	out.Truncated = true
	head := trimEnd(b.head)
	tail = trimStart(tail)
	cut := b.total - int64(len(head)) - int64(len(tail))
	out.Text = valid(head) + fmt.Sprintf("\n… %d bytes cut …\n", cut) + valid(tail)
	return out
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), string(utf8.RuneError)) }

// trimEnd drops a rune that the cut went through.
func trimEnd(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// trimStart drops the rest of a rune that the cut went through.
func trimStart(b []byte) []byte {
	for i := 0; i < len(b) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// chunks are read buffers, as large as a pipe.
var chunks = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// Drain copies r into w, which must take everything (a Buffer does), until r
// ends or fails. It returns nil at the end of the stream.
func Drain(w io.Writer, r io.Reader) error {
	buf := chunks.Get().(*[64 << 10]byte)
	defer chunks.Put(buf)
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			_, _ = w.Write(buf[:n])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
