package output

import (
	"bufio"
	"fmt"
	"hash/maphash"
	"io"
	"math"

	"github.com/assay-run/assay/pkg/job"
)

// Source opens an output, or an expected one, at its start.
type Source func() (io.ReadCloser, error)

// Describe describes in one line the first difference between an output and the expected one, in
// the terms of the comparison of s. It returns "" if they are the Same. It escapes blanks and
// invisible characters. Errors are read errors.
func Describe(got, want Source, s *job.Stdio) (string, error) {
	d := &description{got: got, want: want, s: s}
	switch s.Compare {
	case job.CompareExact:
		return d.exact()
	case job.CompareTokens, job.CompareFloats:
		return d.words()
	case job.CompareUnordered:
		return d.unordered()
	}
	return d.lines()
}

type description struct {
	got, want Source
	s         *job.Stdio
}

// with calls f with both outputs from the given offsets.
func (d *description) with(fromGot, fromWant int64, f func(got, want *bufio.Reader) error) error {
	var readers [2]*bufio.Reader
	for i, from := range []int64{fromGot, fromWant} {
		r, err := []Source{d.got, d.want}[i]()
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		if _, err := io.CopyN(io.Discard, r, from); err != nil && !atEnd(err) {
			return err
		}
		readers[i] = bufio.NewReaderSize(r, 64<<10)
	}
	return f(readers[0], readers[1])
}

// same compares the whole outputs again with other rules.
func (d *description) same(s job.Stdio) (same bool, err error) {
	err = d.with(0, 0, func(got, want *bufio.Reader) (err error) {
		same, err = Same(got, want, &s)
		return err
	})
	return same, err
}

// spot is the first difference of two outputs.
type spot struct {
	line      int // of the output, starts at 1
	word      int // of the output, starts at 1
	got, want end
	x, y      piece // the two different pieces, with copied texts
}

// end is one output at a spot.
type end struct {
	line int64 // offset of its line
	word int64 // offset of its word
	over bool  // the output ends before the spot
	none bool  // it has no text on this line, or no such word
}

// find reads both outputs piece by piece up to the first difference.
func (d *description) find(same func(x, y *piece) bool) (at spot, err error) {
	err = d.with(0, 0, func(got, want *bufio.Reader) error {
		seed := maphash.MakeSeed()
		a, b := newPieces(got, seed, d.s.IgnoreCase), newPieces(want, seed, d.s.IgnoreCase)
		at.line = 1
		for {
			x, err := a.next()
			if err != nil && !atEnd(err) {
				return err
			}
			y, failed := b.next()
			if failed != nil && !atEnd(failed) {
				return failed
			}
			at.word++
			if err == nil && failed == nil && same(&x, &y) {
				at.got.pass(&x)
				at.want.pass(&y)
				at.line += x.lines
				continue
			}
			at.got.over, at.want.over = err != nil, failed != nil
			at.x, at.y = x, y
			at.x.text, at.y.text = []byte(string(x.text)), []byte(string(y.text))
			return nil
		}
	})
	return at, err
}

// pass moves an end past a piece.
func (e *end) pass(p *piece) {
	if p.lines > 0 {
		e.line = p.at - p.blanks.bytes
	}
}

// lines describes a difference in a comparison of lines.
func (d *description) lines() (string, error) {
	at, err := d.find(func(x, y *piece) bool { return x.lines == y.lines && x.blanks == y.blanks && x.word == y.word })
	if err != nil {
		return "", err
	}
	if at.got.over && at.want.over {
		return "", nil
	}
	further := math.MaxInt // lines between the last equal word and the different one
	for _, p := range []struct {
		over bool
		*piece
	}{{at.got.over, &at.x}, {at.want.over, &at.y}} {
		if !p.over {
			further = min(further, p.lines)
		}
	}
	at.line += further
	for _, e := range []struct {
		*end
		*piece
	}{{&at.got, &at.x}, {&at.want, &at.y}} {
		e.none = further > 0 && (e.over || e.lines > further)
		if !e.over && e.lines == further {
			e.pass(e.piece)
		}
	}
	x, y, column, err := d.excerpts(at, func(e end) int64 { return e.line }, isLineEnd, isSpace)
	if err != nil {
		return "", err
	}
	hint, err := d.hint(at, x, y)
	if err != nil {
		return "", err
	}
	switch {
	case at.got.over && at.word == 1:
		return empty(at.x.at, y), nil
	case at.got.over && at.got.none:
		return fmt.Sprintf("the output ends before line %d, expected %s", at.line, y) + remarks(hint), nil
	case at.want.over && at.want.none:
		return fmt.Sprintf("line %d of the output is %s, expected the end of the output", at.line, x) + remarks(hint), nil
	}
	return fmt.Sprintf("line %d of the output is %s, expected %s", at.line, x, y) + remarks(from("column", column), hint), nil
}

// words describes a difference in a comparison of words.
func (d *description) words() (string, error) {
	same := func(x, y *piece) bool { return x.word == y.word }
	if d.s.Compare == job.CompareFloats {
		near := nearness(d.s)
		same = func(x, y *piece) bool { return x.word == y.word || near(x, y) }
	}
	at, err := d.find(same)
	if err != nil {
		return "", err
	}
	if at.got.over && at.want.over {
		return "", nil
	}
	line := at.line + at.x.lines
	at.got.word, at.want.word = at.x.at, at.y.at
	at.got.none, at.want.none = at.got.over, at.want.over
	x, y, column, err := d.excerpts(at, func(e end) int64 { return e.word }, isSpace, nil)
	switch {
	case err != nil:
		return "", err
	case at.got.over && at.word == 1:
		return empty(at.x.at, y), nil
	case at.got.over:
		return fmt.Sprintf("the output ends before word %d, expected %s", at.word, y), nil
	case at.want.over:
		return fmt.Sprintf("word %d of the output (line %d) is %s, expected the end of the output", at.word, line, x), nil
	}
	hint := ""
	if column > 1 && (x.cut || y.cut) {
		hint = from("character", column)
	}
	more, err := d.wordHint(at, x, y)
	return fmt.Sprintf("word %d of the output (line %d) is %s, expected %s", at.word, line, x, y) + remarks(hint, more), err
}

// exact describes a difference in a comparison of bytes.
func (d *description) exact() (string, error) {
	at, same := spot{line: 1}, false
	err := d.with(0, 0, func(got, want *bufio.Reader) error {
		for offset := int64(0); ; offset++ {
			a, err := got.ReadByte()
			if err != nil && !atEnd(err) {
				return err
			}
			b, failed := want.ReadByte()
			if failed != nil && !atEnd(failed) {
				return failed
			}
			if at.got.over, at.want.over = err != nil, failed != nil; a != b || err != nil || failed != nil {
				same = at.got.over && at.want.over
				return nil
			}
			if a == '\n' {
				at.line++
				at.got.line, at.want.line = offset+1, offset+1
			}
		}
	})
	if err != nil || same {
		return "", err
	}
	x, y, column, err := d.excerpts(at, func(e end) int64 { return e.line }, nil, nil)
	if err != nil {
		return "", err
	}
	hint, err := d.hint(at, x, y)
	switch {
	case err != nil:
		return "", err
	case at.got.over && column == 1 && at.line == 1:
		return empty(0, y), nil
	case at.got.over && column == 1:
		return fmt.Sprintf("the output ends before line %d, expected %s", at.line, y) + remarks(hint), nil
	case at.want.over && column == 1:
		return fmt.Sprintf("line %d of the output is %s, expected the end of the output", at.line, x) + remarks(hint), nil
	}
	return fmt.Sprintf("line %d of the output is %s, expected %s", at.line, x, y) + remarks(from("column", column), hint), nil
}
