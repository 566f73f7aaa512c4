package output

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
)

// maxDistinct limits the number of different lines that are counted for a description.
const maxDistinct = 200_000

// unordered describes the difference in a comparison of lines in any order: a surplus line and a
// missing line.
func (d *description) unordered() (string, error) {
	var surplus, missing *line
	err := d.with(0, 0, func(got, want *bufio.Reader) (err error) {
		surplus, err = d.unmatched(got, want)
		return err
	})
	if err == nil {
		err = d.with(0, 0, func(got, want *bufio.Reader) (err error) {
			missing, err = d.unmatched(want, got)
			return err
		})
	}
	if errors.Is(err, errDistinct) {
		return "the lines of the output differ from the expected ones in any order", nil
	}
	var x, y excerpt
	if err == nil {
		err = d.with(surplus.offset(), missing.offset(), func(got, want *bufio.Reader) error {
			x, y = whole(got), whole(want)
			return nil
		})
	}
	if err != nil {
		return "", err
	}
	if surplus == nil && missing == nil {
		return "", nil
	}
	var said []string
	if surplus != nil {
		said = append(said, fmt.Sprintf("line %d of the output is %s, which is %s", surplus.number, x, expectedTimes(surplus.times)))
	}
	switch {
	case missing == nil:
	case missing.times == 0:
		said = append(said, fmt.Sprintf("the line %s is missing", y))
	default:
		said = append(said, fmt.Sprintf("the line %s is in the output %s", y, onlyTimes(missing.times)))
	}
	return strings.Join(said, "; ") + " (lines in any order)", nil
}

// whole returns the start of a line without trailing blanks.
func whole(r *bufio.Reader) excerpt {
	e := excerpt{}
	e.after, e.more = (&part{r: r, isEnd: isLineEnd}).rest(nil, isSpace)
	if n := runes(e.after, maxWhole); n < len(e.after) {
		e.after, e.more = e.after[:n], true
	}
	return e
}

func expectedTimes(n int) string {
	if n == 0 {
		return "not expected"
	}
	return "expected " + onlyTimes(n)
}

func onlyTimes(n int) string {
	if n == 1 {
		return "only once"
	}
	return fmt.Sprintf("only %d times", n)
}

var errDistinct = errors.New("too many different lines")

// line is a line that the other output lacks or has less often.
type line struct {
	number int
	at     int64 // its offset
	times  int   // how often the other output has it
}

func (l *line) offset() int64 {
	if l == nil {
		return 0
	}
	return l.at
}

// unmatched returns the first line of a that b lacks, or has less often than a up to there. It
// returns nil if there is none.
func (d *description) unmatched(a, b *bufio.Reader) (found *line, err error) {
	seed := maphash.MakeSeed()
	type count struct{ all, left int }
	counts := map[sum64]*count{}
	err = eachLine(newPieces(b, seed, d.s.IgnoreCase), seed, func(_ line, sum sum64) error {
		if counts[sum] == nil {
			if len(counts) == maxDistinct {
				return errDistinct
			}
			counts[sum] = &count{}
		}
		counts[sum].all++
		counts[sum].left++
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachLine(newPieces(a, seed, d.s.IgnoreCase), seed, func(l line, sum sum64) error {
		c := cmp.Or(counts[sum], &count{})
		if c.left--; c.left < 0 {
			l.times, found = c.all, &l
			return io.EOF
		}
		return nil
	})
	return found, err
}

// eachLine calls f for each line that is not empty, with its sum. If f returns io.EOF, eachLine
// stops without an error.
func eachLine(p *pieces, seed maphash.Seed, f func(l line, sum sum64) error) error {
	var h maphash.Hash
	h.SetSeed(seed)
	l, words := line{number: 1}, int64(0)
	for {
		c, err := p.next()
		if err != nil && !atEnd(err) {
			return err
		}
		if (c.lines > 0 || err != nil) && words > 0 {
			if failed := f(l, sum64{words, h.Sum64()}); failed != nil {
				if atEnd(failed) {
					return nil
				}
				return failed
			}
			words = 0
			h.Reset()
		}
		if err != nil {
			return nil
		}
		if c.lines > 0 {
			l.number, l.at = l.number+c.lines, c.at-c.blanks.bytes
		}
		words++
		for _, s := range []sum64{c.blanks, c.word} {
			maphash.WriteComparable(&h, s)
		}
	}
}
