package capture

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// whole is a job.Spill: all kept bytes of a Buffer, as text.
type whole struct {
	of         *Buffer
	head, tail []span
	cut        int64 // bytes of the stream between them; 0: none
}

// trim drops incomplete runes at both sides of the cut, and counts the cut bytes.
func (w *whole) trim() {
	if w.cut == 0 {
		w.cut = w.of.total - int64(size(w.head)+size(w.tail))
	}
	n := size(w.head)
	end := w.of.bytes(cut(w.head, n-utf8.UTFMax, n))
	short := len(end) - len(trimEnd(end))
	w.head = cut(w.head, 0, n-short)
	m := size(w.tail)
	start := w.of.bytes(cut(w.tail, 0, utf8.UTFMax))
	late := len(start) - len(trimStart(start))
	w.tail = cut(w.tail, late, m)
	w.cut += int64(short + late)
}

// marker returns the text at the place of the cut.
func (w *whole) marker() string { return fmt.Sprintf("\n… %d bytes cut …\n", w.cut) }

// bytes returns the whole content, which must be in memory.
func (w *whole) bytes() []byte {
	if w.cut == 0 {
		return w.of.bytes(slices.Concat(w.head, w.tail))
	}
	return slices.Concat(w.of.bytes(w.head), []byte(w.marker()), w.of.bytes(w.tail))
}

// isBinary reports whether the content is not UTF-8. It reads all of it.
func (w *whole) isBinary() bool {
	for _, spans := range [][]span{w.head, w.tail} {
		if !isText(&spanReader{w.of, slices.Clone(spans)}) {
			return true
		}
	}
	return false
}

// isText reports whether r yields valid UTF-8.
func isText(r io.Reader) bool {
	buf := make([]byte, textChunk)
	rest := 0
	for {
		n, err := r.Read(buf[rest:])
		data := buf[:rest+n]
		if err != nil {
			return err == io.EOF && utf8.Valid(data)
		}
		whole := len(trimEnd(data))
		if !utf8.Valid(data[:whole]) {
			return false
		}
		rest = copy(buf, data[whole:])
	}
}

// Exact implements job.Spill.
func (w *whole) Exact() io.Reader {
	if w.cut == 0 {
		return &spanReader{w.of, slices.Concat(w.head, w.tail)}
	}
	return io.MultiReader(&spanReader{w.of, slices.Clone(w.head)}, strings.NewReader(w.marker()), &spanReader{w.of, slices.Clone(w.tail)})
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), string(utf8.RuneError)) }

// Open implements job.Spill.
func (w *whole) Open() io.Reader {
	if w.cut == 0 {
		return newText(&spanReader{w.of, slices.Concat(w.head, w.tail)})
	}
	return io.MultiReader(newText(&spanReader{w.of, slices.Clone(w.head)}), strings.NewReader(w.marker()), newText(&spanReader{w.of, slices.Clone(w.tail)}))
}

// Close implements job.Spill. It frees the disk space; the Buffer keeps only its part in memory.
func (w *whole) Close() error {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.of.kept.failed {
		return nil
	}
	w.of.kept.failed = true
	return w.of.kept.file.Close()
}

// spanReader reads spans of a Buffer, one after the other.
type spanReader struct {
	of   *Buffer
	left []span // its own copy
}

func (r *spanReader) Read(p []byte) (int, error) {
	for len(r.left) > 0 && r.left[0].from == r.left[0].to {
		r.left = r.left[1:]
	}
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	s := &r.left[0]
	n := min(len(p), s.to-s.from)
	r.of.kept.read(p[:n], s.from)
	s.from += n
	return n, nil
}

// text reads valid UTF-8: it replaces each run of invalid bytes with one U+FFFD, as
// strings.ToValidUTF8 does.
type text struct {
	r       io.Reader
	in, out []byte
	invalid bool // the last rune of out replaces a run of invalid bytes
	err     error
}

// textChunk is how many bytes text reads at once.
const textChunk = 32 << 10

func newText(r io.Reader) *text { return &text{r: r} }

func (t *text) Read(p []byte) (int, error) {
	for len(t.out) == 0 {
		if t.err != nil {
			return 0, t.err
		}
		t.fill()
	}
	n := copy(p, t.out)
	t.out = t.out[n:]
	return n, nil
}

// fill reads the next chunk and converts its complete runes.
func (t *text) fill() {
	rest := len(t.in)
	if t.in == nil {
		t.in = make([]byte, 0, textChunk)
	}
	var n int
	n, t.err = t.r.Read(t.in[rest:textChunk])
	t.in = t.in[:rest+n]
	t.out = t.out[:0]
	at := 0
	for at < len(t.in) {
		r, size := utf8.DecodeRune(t.in[at:])
		if r == utf8.RuneError && size == 1 {
			if t.err == nil && !utf8.FullRune(t.in[at:]) {
				break
			}
			if !t.invalid {
				t.out = utf8.AppendRune(t.out, utf8.RuneError)
			}
			t.invalid = true
			at++
			continue
		}
		t.invalid = false
		t.out = append(t.out, t.in[at:at+size]...)
		at += size
	}
	t.in = append(t.in[:0], t.in[at:]...)
}
