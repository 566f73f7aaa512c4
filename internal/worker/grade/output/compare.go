// Package output stores programs' outputs and compares them with the expected ones: any bytes, any
// size, little memory.
package output

import (
	"bytes"
	"cmp"
	"errors"
	"hash/maphash"
	"io"
	"math"
	"strconv"

	"github.com/assay-run/assay/pkg/job"
)

// Same reports whether a program's output matches the expected one. Errors are read errors.
func Same(got, want io.Reader, s *job.Stdio) (bool, error) {
	if s.Compare == job.CompareExact {
		return sameBytes(got, want)
	}
	seed := maphash.MakeSeed()
	a, b := newPieces(got, seed, s.IgnoreCase), newPieces(want, seed, s.IgnoreCase)
	switch s.Compare {
	case job.CompareTokens:
		return samePieces(a, b, func(x, y *piece) bool { return x.word == y.word })
	case job.CompareFloats:
		near := nearness(s)
		return samePieces(a, b, func(x, y *piece) bool { return x.word == y.word || near(x, y) })
	case job.CompareUnordered:
		return sameLines(a, b, seed)
	}
	return samePieces(a, b, func(x, y *piece) bool { return x.lines == y.lines && x.blanks == y.blanks && x.word == y.word })
}

func sameBytes(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(a, x)
		m, failed := io.ReadFull(b, y)
		for _, e := range []error{err, failed} {
			if e != nil && !atEnd(e) {
				return false, e
			}
		}
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if err != nil || failed != nil { // equal sizes, so the other ends here, too, or at the next read
			return atEnd(err) && atEnd(failed), nil
		}
	}
}

func atEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// samePieces compares word by word. It ignores the blanks after the last word.
func samePieces(a, b *pieces, same func(x, y *piece) bool) (bool, error) {
	for {
		x, err := a.next()
		if err != nil && !atEnd(err) {
			return false, err
		}
		y, failed := b.next()
		if failed != nil && !atEnd(failed) {
			return false, failed
		}
		if err != nil || failed != nil {
			return atEnd(err) && atEnd(failed), nil
		}
		if !same(&x, &y) {
			return false, nil
		}
	}
}

// sameLines compares the lines in any order.
func sameLines(a, b *pieces, seed maphash.Seed) (bool, error) {
	x, err := bagOf(a, seed)
	if err != nil {
		return false, err
	}
	y, err := bagOf(b, seed)
	return x == y, err
}

// bag represents lines in any order: their number and two sums of hashes with a secret seed, so
// that authors of outputs cannot choose collisions.
type bag struct {
	lines      int64
	sum, other uint64
}

func bagOf(p *pieces, seed maphash.Seed) (b bag, err error) {
	var line maphash.Hash
	line.SetSeed(seed)
	words := 0
	end := func() {
		if words > 0 {
			b.lines++
			b.sum += line.Sum64()
			_ = line.WriteByte(1)
			b.other += line.Sum64()
		}
		line.Reset()
		words = 0
	}
	for {
		c, err := p.next()
		if c.lines > 0 || err != nil {
			end()
		}
		switch {
		case atEnd(err):
			return b, nil
		case err != nil:
			return b, err
		}
		words++
		for _, s := range []sum64{c.blanks, c.word} {
			maphash.WriteComparable(&line, s)
		}
	}
}

// nearness returns a function that reports whether two words are numbers within the tolerance of a
// case.
func nearness(s *job.Stdio) func(got, want *piece) bool {
	absolute, relative, of := s.AbsoluteTolerance, s.RelativeTolerance, 0.0
	if absolute+relative == 0 {
		absolute = cmp.Or(s.Tolerance, job.DefaultTolerance)
		relative, of = absolute, 1
	}
	return func(got, want *piece) bool {
		a, ok1 := finite(got)
		b, ok2 := finite(want)
		d := math.Abs(a - b)
		return ok1 && ok2 && (d <= absolute || d <= relative*max(of, math.Abs(b)))
	}
}

// finite parses a word as a number. It rejects 1_0, which Go accepts but other languages neither
// print nor read.
func finite(p *piece) (float64, bool) {
	if p.word.bytes > maxWord || bytes.IndexByte(p.text, '_') >= 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(p.text), 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}
