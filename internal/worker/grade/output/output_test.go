package output

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
)

// same compares and fails the test on an error.
func same(t interface{ Fatal(...any) }, got, want string, s job.Stdio) bool {
	ok, err := Same(strings.NewReader(got), strings.NewReader(want), &s)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestSameOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
		is        string // the comparisons that accept them: exact, whitespace, tokens, floats, unordered
	}{
		{"a\n", "a\n", "ewtfu"},
		{"a", "a\n", "wtfu"},
		{"a \r\nb\n\n", "a\nb", "wtfu"},
		{" a", "a", "tf"},
		{"a b\nc", "a\nb c", "tf"},
		{"a\n\nb", "a\nb", "tfu"},
		{"1.0000001 2", "1 2", "f"},
		{"1.1", "1", ""},
		{"1000000.5", "1000000", "f"},
		{"nan", "1", ""},
		{"inf", "1", ""},
		{"nan", "nan", "ewtfu"},
		{"1 2", "1", ""},
		{"1", "1 2", ""},
		{"ab", "a b", ""},
		{"", "", "ewtfu"},
		{" \n\t\n", "", "wtfu"},
		{"b\na\n", "a\nb\n", "u"},
		{"a\na\nb", "a\nb\nb", ""},
		{"a\nb", "a\nb\nb", ""},
		{"a b\nc", "c\na b", "u"},
		{"a  b\nc", "c\na b", ""},
		{"a\x00b", "a\x00b", "ewtfu"},
		{"a\x00b", "a\x00c", ""},
		{"\xff\xfe", "\xff\xfe", "ewtfu"},
		{"\xff", "\uFFFD", ""},
		{"\xff", "\xfe", ""},
		{"a\u00a0b", "a b", ""},
		{"A", "a", ""},
	} {
		for how, letter := range map[job.Compare]string{"exact": "e", "whitespace": "w", "tokens": "t", "floats": "f", "unordered": "u", "": "w"} {
			if got := same(t, c.got, c.want, job.Stdio{Compare: how}); got != strings.Contains(c.is, letter) {
				t.Errorf("%q and %q by %q: %v", c.got, c.want, how, got)
			}
		}
	}
}

func TestTolerances(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want      string
		both, abs, rel float64
		same           bool
	}{
		{"1.4", "1", 0.5, 0, 0, true}, {"14", "10", 0.5, 0, 0, true}, {"16", "10", 0.5, 0, 0, false},
		{"1.4", "1", 0, 0.5, 0, true}, {"14", "10", 0, 0.5, 0, false}, {"10.4", "10", 0, 0.5, 0, true},
		{"0.1", "0", 0, 0, 0.5, false}, {"0.14", "0.1", 0, 0, 0.5, true}, {"0.16", "0.1", 0, 0, 0.5, false},
		{"0.1", "0", 0, 0.2, 0.1, true}, {"109", "100", 0, 0.2, 0.1, true}, {"111", "100", 0, 0.2, 0.1, false},
		{"-1", "-1.05", 0, 0, 0.1, true}, {"1e0", "1", 0, 1e-9, 0, true}, {"0x1p0", "1", 0, 1e-9, 0, true}, {"1_0", "10", 0, 1e-9, 0, false}, {"x", "1", 0, 5, 5, false},
		{strings.Repeat("1", 5000), strings.Repeat("1", 4999) + "2", 1, 0, 0, false},
	} {
		s := job.Stdio{Compare: job.CompareFloats, Tolerance: c.both, AbsoluteTolerance: c.abs, RelativeTolerance: c.rel}
		if got := same(t, c.got, c.want, s); got != c.same {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, how := range []job.Compare{"", job.CompareTokens, job.CompareFloats, job.CompareUnordered} {
		if !same(t, "YES Ab\n", "yes aB\n", job.Stdio{Compare: how, IgnoreCase: true}) || same(t, "É", "é", job.Stdio{Compare: how, IgnoreCase: true}) {
			t.Errorf("%q: case", how)
		}
	}
}

// TestOutputsInParts checks that outputs compare the same if they are read in parts of any size.
func TestOutputsInParts(t *testing.T) {
	t.Parallel()
	letters := []string{"a", "bb", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\v", "\x00", "\xff", strings.Repeat("x", 70_000), strings.Repeat(" ", 70_000)}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 12).Draw(t, name), "")
		}
		a, b := draw("a"), draw("b")
		if rapid.Bool().Draw(t, "similar") {
			b = tidy(a) + "\n"
		}
		lines := func(s string) []string {
			all := slices.DeleteFunc(strings.Split(tidy(s), "\n"), func(l string) bool { return l == "" })
			slices.Sort(all)
			return all
		}
		for how, want := range map[job.Compare]bool{
			job.CompareExact: a == b, job.CompareWhitespace: tidy(a) == tidy(b), job.CompareTokens: slices.Equal(strings.Fields(a), strings.Fields(b)),
			job.CompareUnordered: slices.Equal(lines(a), lines(b)),
		} {
			got, err := Same(iotest.HalfReader(strings.NewReader(a)), iotest.DataErrReader(strings.NewReader(b)), &job.Stdio{Compare: how})
			if err != nil || got != want {
				t.Fatalf("%s: %v, %v, want %v: %.100q and %.100q", how, got, err, want, a, b)
			}
		}
	})
}

// tidy returns text as the whitespace comparison sees it.
func tidy(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r\f\v")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// TestOutputThatCannotBeRead checks that an unreadable output is not a wrong answer.
func TestOutputThatCannotBeRead(t *testing.T) {
	t.Parallel()
	bad := errors.New("a disk")
	for _, how := range []job.Compare{"exact", "whitespace", "tokens", "floats", "unordered"} {
		for i := range 2 {
			in := []io.Reader{strings.NewReader("a b\nc\n"), strings.NewReader("a b\nc\n")}
			in[i] = io.MultiReader(strings.NewReader("a b\n"), iotest.ErrReader(bad))
			if _, err := Same(in[0], in[1], &job.Stdio{Compare: how}); !errors.Is(err, bad) {
				t.Errorf("%s: %v", how, err)
			}
		}
	}
}

func TestSpool(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 10, spoolMemory, spoolMemory + 1, 3*spoolMemory + 7} {
		s := &Spool{Limit: 2 * spoolMemory}
		whole := bytes.Repeat([]byte("0123456789abcdef\n"), n/17+1)[:n]
		for part := range slices.Chunk(whole, 64<<10) {
			if k, err := s.Write(part); k != len(part) || err != nil {
				t.Fatal(k, err)
			}
		}
		for range 2 {
			got, err := io.ReadAll(s.Open())
			if err != nil || !bytes.Equal(got, whole[:min(n, 2*spoolMemory)]) || s.Err != nil {
				t.Errorf("%d bytes: %d are there, %v, %v", n, len(got), err, s.Err)
			}
		}
		if s.Over() != (n > 2*spoolMemory) || s.Total != int64(n) {
			t.Errorf("%d bytes: over %v, total %d", n, s.Over(), s.Total)
		}
		s.Close()
	}
}
