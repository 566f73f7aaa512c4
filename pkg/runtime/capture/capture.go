// Package capture keeps the head and the tail of an output stream while it drains all of it. So a
// program can write endlessly without slowing down or enlarging itself or the worker. Memory per
// stream is limited; the rest is in an unlinked temporary file.
package capture

import (
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// Buffer collects one stream. It keeps at most its limit, in two halves: the head, and the tail in
// a ring. A Buffer holds the first bytes, at most MaxInMemory, in memory and the rest in a file.
// Write and Output may be called from different goroutines.
type Buffer struct {
	mu     sync.Mutex
	keep   int // bytes to keep
	alarm  int64
	kept   storage
	filled int // bytes of kept in use, up to keep
	next   int // the oldest byte of the tail, once it is full
	total  int64
	exceed func()
}

// New returns a Buffer that keeps limit bytes. If exceed is not nil, the Buffer calls it once when
// the stream passes the limit; exceed must not block.
func New(limit job.Size, exceed func()) *Buffer {
	return NewKeeping(limit, Keep{limit, MaxInMemory}, exceed)
}

// NewKeeping is New with a lower number of kept bytes than the stream's limit, or fewer in memory.
func NewKeeping(limit job.Size, k Keep, exceed func()) *Buffer {
	limit = max(limit, 0)
	return &Buffer{
		keep: int(max(min(limit, k.Bytes), 0)), alarm: int64(limit), exceed: exceed,
		kept: storage{most: min(k.InMemory, MaxInMemory)},
	}
}

// Keep sets how many bytes of a stream a Buffer stores.
type Keep struct {
	Bytes    job.Size
	InMemory int // bytes of it; at most MaxInMemory
}

// Write accepts all of p; it never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	before := b.total
	b.total += int64(len(p))
	passed := before <= b.alarm && b.total > b.alarm
	b.store(p)
	b.mu.Unlock()
	if passed && b.exceed != nil {
		b.exceed()
	}
	return len(p), nil
}

// Skip counts n bytes of the stream that the Buffer never receives.
func (b *Buffer) Skip(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total += max(n, 0)
}

// Size returns the number of kept bytes.
func (b *Buffer) Size() job.Size {
	b.mu.Lock()
	defer b.mu.Unlock()
	return job.Size(b.filled)
}

// Total returns the length of the stream so far.
func (b *Buffer) Total() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// headMax is the size of a full head.
func (b *Buffer) headMax() int { return b.keep - b.keep/2 }

// store fills the head first and then overwrites the tail from its oldest byte.
func (b *Buffer) store(p []byte) {
	n := min(max(b.headMax()-b.filled, 0), len(p))
	b.put(p[:n])
	p = p[n:]
	tailMax := b.keep / 2
	if len(p) > tailMax {
		p = p[len(p)-tailMax:]
	}
	n = min(b.keep-b.filled, len(p))
	b.put(p[:n])
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = min(tailMax-b.next, len(p))
		b.kept.write(p[:n], b.headMax()+b.next)
		b.next = (b.next + n) % tailMax
	}
}

// put appends to the bytes in use.
func (b *Buffer) put(p []byte) {
	b.kept.write(p, b.filled)
	b.filled += len(p)
}

// span is a range of the kept bytes.
type span struct{ from, to int }

// spans returns the head and the tail, each in stream order. If the file failed, there is no tail.
func (b *Buffer) spans() (head, tail []span) {
	if b.kept.failed {
		return []span{{0, min(len(b.kept.mem), b.headMax())}}, nil
	}
	if b.filled <= b.headMax() {
		return []span{{0, b.filled}}, nil
	}
	return []span{{0, b.headMax()}}, []span{{b.headMax() + b.next, b.filled}, {b.headMax(), b.headMax() + b.next}}
}

func size(spans []span) (n int) {
	for _, s := range spans {
		n += s.to - s.from
	}
	return n
}

// cut returns the part [from, to) of spans.
func cut(spans []span, from, to int) (out []span) {
	at := 0
	for _, s := range spans {
		n := s.to - s.from
		low, high := max(from-at, 0), min(to-at, n)
		if low < high {
			out = append(out, span{s.from + low, s.from + high})
		}
		at += n
	}
	return out
}

// bytes returns the bytes of spans.
func (b *Buffer) bytes(spans []span) []byte {
	out, at := make([]byte, size(spans)), 0
	for _, s := range spans {
		b.kept.read(out[at:at+s.to-s.from], s.from)
		at += s.to - s.from
	}
	return out
}

// From returns at most most bytes of the stream from an offset, and the offset of the first byte.
// This is later than requested if the Buffer has dropped those bytes.
func (b *Buffer) From(offset int64, most int) (at int64, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	offset = max(offset, 0)
	head, tail := b.spans()
	if n := int64(size(head)); offset < n {
		return offset, b.bytes(cut(head, int(offset), int(min(n, offset+int64(most)))))
	}
	n := size(tail)
	begin := b.total - int64(n) // Skip counts bytes at the end only
	if offset = max(offset, begin); offset >= b.total || n == 0 {
		return min(offset, b.total), nil
	}
	from := int(offset - begin)
	return offset, b.bytes(cut(tail, from, min(n, from+most)))
}

// Output returns the kept bytes as text. It replaces invalid UTF-8; Output.Base64 or Output.Spill
// has the original. A cut stream has a marker line between head and tail. If part of the stream is
// in a file, the text is its two ends, and Output.Spill reads all of it. The Buffer must not be
// used afterwards.
func (b *Buffer) Output() job.Output {
	b.mu.Lock()
	defer b.mu.Unlock()
	head, tail := b.spans()
	w := &whole{of: b, head: head, tail: tail}
	out := job.Output{Bytes: b.total, Truncated: b.total > int64(size(head)+size(tail))}
	if out.Truncated {
		w.trim()
	} else {
		w.head, w.tail = append(head, tail...), nil
	}
	if b.kept.file == nil || b.kept.failed {
		exact := w.bytes()
		if out.Text = valid(exact); out.Text != string(exact) {
			out.Binary, out.Base64 = true, exact
		}
		return out
	}
	all := append(slices.Clone(w.head), w.tail...)
	ends := &whole{of: b, head: cut(all, 0, b.kept.most/2), tail: cut(all, size(all)-b.kept.most/2, size(all)), cut: w.cut}
	ends.cut += int64(size(all) - size(ends.head) - size(ends.tail))
	ends.trim()
	out.Text, out.Spill, out.Binary = valid(ends.bytes()), w, w.isBinary()
	return out
}

// trimEnd drops an incomplete rune at the end.
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

// trimStart drops the rest of a rune at the start.
func trimStart(b []byte) []byte {
	for i := 0; i < len(b) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// chunks are read buffers of the size of a pipe.
var chunks = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// Drain copies r into w, which must accept everything (like a Buffer), until r ends or fails. At
// the end of the stream it returns nil.
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
