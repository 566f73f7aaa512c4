package grade

import (
	"math"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// sameOutput says whether a program's output is what was expected.
func sameOutput(got, want string, how job.Compare, tolerance float64) bool {
	switch how {
	case job.CompareExact:
		return got == want
	case job.CompareTokens:
		return equalFields(got, want, func(a, b string) bool { return a == b })
	case job.CompareFloats:
		if tolerance == 0 {
			tolerance = job.DefaultTolerance
		}
		return equalFields(got, want, func(a, b string) bool { return a == b || near(a, b, tolerance) })
	}
	return tidy(got) == tidy(want)
}

// tidy drops what nobody sees: blanks at the ends of lines, empty lines at the
// end, and the difference between line ends.
func tidy(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r\f\v")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func equalFields(got, want string, same func(a, b string) bool) bool {
	a, b := strings.Fields(got), strings.Fields(want)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}

// near says whether two numbers differ by at most tolerance, absolutely or
// relative to the expected one.
func near(got, want string, tolerance float64) bool {
	a, ok1 := finite(got)
	b, ok2 := finite(want)
	return ok1 && ok2 && math.Abs(a-b) <= tolerance*max(1, math.Abs(b))
}

func finite(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// firstDifference returns the first lines in which two outputs differ, and
// their number.
func firstDifference(got, want string) (line int, g, w string) {
	a, b := strings.Split(tidy(got), "\n"), strings.Split(tidy(want), "\n")
	for i := range max(len(a), len(b)) {
		g, w = "", ""
		if i < len(a) {
			g = a[i]
		}
		if i < len(b) {
			w = b[i]
		}
		if g != w || i >= len(a) || i >= len(b) {
			return i + 1, g, w
		}
	}
	return 0, "", ""
}
