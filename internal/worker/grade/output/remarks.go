package output

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// empty describes an output of this many bytes without words.
func empty(bytes int64, want excerpt) string {
	if bytes == 0 {
		return fmt.Sprintf("the output is empty, expected %s", want)
	}
	return fmt.Sprintf("the output has blanks only, expected %s", want)
}

// from names the first different column in characters, unless it is the first of all.
func from(unit string, column int) string {
	if column <= 1 {
		return ""
	}
	return fmt.Sprintf("from %s %d on", unit, column)
}

// remarks joins remarks on a difference in parentheses. It returns "" for none.
func remarks(all ...string) string {
	all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// hint returns a remark on outputs with different lines or bytes, or "".
func (d *description) hint(at spot, x, y excerpt) (string, error) {
	blanks, err := d.same(job.Stdio{Compare: job.CompareTokens, IgnoreCase: d.s.IgnoreCase})
	if err != nil {
		return "", err
	}
	if blanks {
		return "the outputs differ in blanks and line ends only", nil
	}
	return d.caseHint(at, x, y)
}

// caseHint returns a remark on the case of letters. For larger differences it describes the two
// words or characters.
func (d *description) caseHint(at spot, x, y excerpt) (string, error) {
	if d.s.Compare != job.CompareExact && !d.s.IgnoreCase {
		s := *d.s
		s.IgnoreCase = true
		if letters, err := d.same(s); err != nil || letters {
			return "the outputs differ in the case of letters only", err
		}
	}
	return hintOf(at, x, y), nil
}

// hintOf returns a remark on two different words or characters.
func hintOf(at spot, x, y excerpt) string {
	a, ok := finite(&at.x)
	b, other := finite(&at.y)
	if ok && other && a == b && !at.got.none && !at.want.none && at.x.word != at.y.word {
		return "the numbers are equal, but text is compared"
	}
	if p, q := x.character(), y.character(); p != q && (p >= utf8.RuneSelf || q >= utf8.RuneSelf) {
		return nameOf(p) + ", expected " + nameOf(q)
	}
	return ""
}

func nameOf(r rune) string {
	if r < 0 {
		return "the end"
	}
	return fmt.Sprintf("character %U", r)
}

// wordHint returns a remark on two different words.
func (d *description) wordHint(at spot, x, y excerpt) (string, error) {
	if d.s.Compare == job.CompareFloats {
		a, ok := finite(&at.x)
		b, other := finite(&at.y)
		switch {
		case ok && other:
			return "the numbers differ by " + strconv.FormatFloat(math.Abs(a-b), 'g', 3, 64) + ", more than the tolerance", nil
		case other:
			return "it is not a finite number", nil
		}
	}
	return d.caseHint(at, x, y)
}
