package output

import (
	"bufio"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// Sizes of an excerpt in bytes: the whole line or word up to maxWhole, otherwise a part before and
// a part after the difference.
const (
	maxWhole  = 120
	maxBefore = 40
	maxAfter  = 60
)

// excerpt is a part of a line or word around a difference.
type excerpt struct {
	before, after []byte // of the difference
	cut, more     bool   // text was cut before and after it
}

// String quotes the excerpt and escapes invisible characters.
func (e excerpt) String() string {
	s := strconv.Quote(string(e.before) + string(e.after))
	if e.cut {
		s = "…" + s
	}
	if e.more {
		s += "…"
	}
	return s
}

// character returns the first different character, or -1.
func (e excerpt) character() rune {
	if len(e.after) == 0 {
		return -1
	}
	r, _ := utf8.DecodeRune(e.after)
	return r
}

// excerpts reads a line or word of both outputs from the offsets. It returns the text around the
// first difference and the number of the first different character. It leaves out trimmed bytes at
// the end.
func (d *description) excerpts(at spot, offset func(end) int64, isEnd, trimmed func(byte) bool) (x, y excerpt, column int, err error) {
	err = d.with(offset(at.got), offset(at.want), func(got, want *bufio.Reader) error {
		a, b := &part{r: got, isEnd: isEnd, over: at.got.none}, &part{r: want, isEnd: isEnd, over: at.want.none}
		var before []byte
		for column = 1; ; {
			c, k := a.peek(), b.peek()
			if c < 0 || k < 0 || c != k && (!d.s.IgnoreCase || lower([]byte{byte(c)})[0] != lower([]byte{byte(k)})[0]) {
				break
			}
			if before = append(before, byte(c)); utf8.RuneStart(byte(c)) {
				column++
			}
			if a.take(); len(before) > 4*maxWhole {
				x.cut, before = true, append(before[:0], before[len(before)-maxWhole:]...)
			}
			b.take()
		}
		start := len(before)
		for start > 0 && len(before)-start < utf8.UTFMax-1 && !utf8.RuneStart(before[start-1]) {
			start--
		}
		if start > 0 && !utf8.FullRune(before[start-1:]) { // the difference is within a character
			start, column = start-1, column-1
		} else {
			start = len(before)
		}
		common := before[start:]
		x.after, x.more = a.rest(common, trimmed)
		y.after, y.more = b.rest(common, trimmed)
		x.before = before[:start]
		if x.cut || x.more || y.more || start+max(len(x.after), len(y.after)) > maxWhole {
			x.shorten()
			for _, e := range []*excerpt{&x, &y} {
				if whole := runes(e.after, maxAfter); whole < len(e.after) {
					e.after, e.more = e.after[:whole], true
				}
			}
		}
		y.before, y.cut = x.before, x.cut
		if trimmed != nil && len(x.after) == 0 != (len(y.after) == 0) { // only one of them has blanks at its end
			for _, e := range []*excerpt{&x, &y} {
				for len(e.after) == 0 && len(e.before) > 0 && trimmed(e.before[len(e.before)-1]) {
					e.before = e.before[:len(e.before)-1]
				}
			}
		}
		return errors.Join(a.err, b.err)
	})
	return x, y, column, err
}

// shorten keeps the last characters before a difference.
func (e *excerpt) shorten() {
	if len(e.before) <= maxBefore {
		return
	}
	e.cut, e.before = true, e.before[len(e.before)-maxBefore:]
	for len(e.before) > 0 && !utf8.RuneStart(e.before[0]) && len(e.before) > maxBefore-utf8.UTFMax {
		e.before = e.before[1:]
	}
}

// runes returns the length of the whole characters in the first n bytes of b.
func runes(b []byte, n int) int {
	if len(b) <= n {
		return len(b)
	}
	return len(strings.TrimSuffix(job.Clip(string(b), n), "…"))
}

// part is a line or word of an output.
type part struct {
	r     *bufio.Reader
	isEnd func(byte) bool // ends the part; nil: a line end, which is included
	over  bool
	err   error
}

// peek returns the next byte, or -1 at the end.
func (p *part) peek() int {
	if p.over {
		return -1
	}
	next, err := p.r.Peek(1)
	if err != nil || p.isEnd != nil && p.isEnd(next[0]) {
		if p.over = true; err != nil && !atEnd(err) {
			p.err = err
		}
		return -1
	}
	return int(next[0])
}

func (p *part) take() {
	b, _ := p.r.ReadByte() // already peeked
	p.over = p.isEnd == nil && b == '\n'
}

// rest returns b plus the rest of the part, limited to the displayed length, and whether there is
// more.
func (p *part) rest(b []byte, trimmed func(byte) bool) ([]byte, bool) {
	out := append([]byte(nil), b...)
	for p.peek() >= 0 {
		if len(out) > 2*maxWhole {
			return out, true
		}
		out = append(out, byte(p.peek()))
		p.take()
	}
	for trimmed != nil && len(out) > 0 && trimmed(out[len(out)-1]) {
		out = out[:len(out)-1]
	}
	return out, false
}

func isLineEnd(b byte) bool { return b == '\n' }
