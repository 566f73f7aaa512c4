package output

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
)

func source(s string) Source {
	return func() (io.ReadCloser, error) { return io.NopCloser(iotest.HalfReader(strings.NewReader(s))), nil }
}

func describe(t interface{ Fatal(...any) }, got, want string, s job.Stdio) string {
	text, err := Describe(source(got), source(want), &s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// count returns the numbers from 0 up to n, and then last.
func count(n int, sep string, last string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprint(&b, i, sep)
	}
	return b.String() + last + "\n"
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	x, spaces := strings.Repeat("x", 5000), strings.Repeat(" ", 5000)
	for name, c := range map[string]struct {
		how       job.Compare
		got, want string
		is        string
	}{
		"short":                 {"", "a\n", "b", `line 1 of the output is "a", expected "b"`},
		"second line":           {"", "1\n2\n3\n", "1\n2\n4\n", `line 3 of the output is "3", expected "4"`},
		"column":                {"", "abc def\n", "abc dgf\n", `line 1 of the output is "abc def", expected "abc dgf" (from column 6 on)`},
		"blanks between":        {"", "a  b", "a b", `line 1 of the output is "a  b", expected "a b" (from column 3 on; the outputs differ in blanks and line ends only)`},
		"blanks and more":       {"", "a  b\nc", "a b\nd", `line 1 of the output is "a  b", expected "a b" (from column 3 on)`},
		"leading blanks":        {"", "   a\n", "a", `line 1 of the output is "   a", expected "a" (the outputs differ in blanks and line ends only)`},
		"tab":                   {"", "a\tb\n", "a b", `line 1 of the output is "a\tb", expected "a b" (from column 2 on; the outputs differ in blanks and line ends only)`},
		"trailing blanks":       {"", "a   \nb\r\n", "a\nc\n", `line 2 of the output is "b", expected "c"`},
		"blanks at the end":     {"", "a  \n", "a b\n", `line 1 of the output is "a", expected "a b" (from column 3 on)`},
		"carriage return":       {"", "a\rb\n", "ab\n", `line 1 of the output is "a\rb", expected "ab" (from column 2 on)`},
		"no-break space":        {"", "a\u00a0b\n", "a b\n", `line 1 of the output is "a\u00a0b", expected "a b" (from column 2 on; character U+00A0, expected character U+0020)`},
		"zero width":            {"", "a\u200bb\n", "ab\n", `line 1 of the output is "a\u200bb", expected "ab" (from column 2 on; character U+200B, expected character U+0062)`},
		"byte order mark":       {"", "\ufeffa\n", "a\n", `line 1 of the output is "\ufeffa", expected "a" (character U+FEFF, expected character U+0061)`},
		"normal forms":          {"", "caf\u0065\u0301\n", "caf\u00e9\n", "line 1 of the output is \"cafe\u0301\", expected \"caf\u00e9\" (from column 4 on; character U+0065, expected character U+00E9)"},
		"homoglyph":             {"", "\u0430\n", "a\n", "line 1 of the output is \"\u0430\", expected \"a\" (character U+0430, expected character U+0061)"},
		"within a character":    {"", "xé\n", "xè\n", `line 1 of the output is "xé", expected "xè" (from column 2 on; character U+00E9, expected character U+00E8)`},
		"no text":               {"", "a\xff\n", "a\xfe\n", `line 1 of the output is "a\xff", expected "a\xfe" (from column 2 on)`},
		"case":                  {"", "YES\n", "Yes\n", `line 1 of the output is "YES", expected "Yes" (from column 2 on; the outputs differ in the case of letters only)`},
		"case and more":         {"", "YES\n1\n", "Yes\n2\n", `line 1 of the output is "YES", expected "Yes" (from column 2 on)`},
		"number format":         {"", "1.0\n", "1\n", `line 1 of the output is "1.0", expected "1" (from column 2 on; the numbers are equal, but text is compared)`},
		"empty":                 {"", "", "1\n", `the output is empty, expected "1"`},
		"blank":                 {"", "\n\n", "1\n", `the output has blanks only, expected "1"`},
		"missing line":          {"", "1\n", "1\n2\n", `the output ends before line 2, expected "2"`},
		"missing word":          {"", "1\n", "1 2\n", `line 1 of the output is "1", expected "1 2" (from column 2 on)`},
		"extra line":            {"", "1\n2\n", "1\n", `line 2 of the output is "2", expected the end of the output`},
		"extra word":            {"", "1 2\n", "1\n", `line 1 of the output is "1 2", expected "1" (from column 2 on)`},
		"extra empty line":      {"", "1\n\n2\n", "1\n2\n", `line 2 of the output is "", expected "2" (the outputs differ in blanks and line ends only)`},
		"missing empty line":    {"", "1\n2\n", "1\n\n2\n", `line 2 of the output is "2", expected "" (the outputs differ in blanks and line ends only)`},
		"joined lines":          {"", "1 2\n", "1\n2\n", `line 1 of the output is "1 2", expected "1" (from column 2 on; the outputs differ in blanks and line ends only)`},
		"long line":             {"", x + "a\n", x + "b\n", `line 1 of the output is …"` + x[:40] + `a", expected …"` + x[:40] + `b" (from column 5001 on)`},
		"middle of a line":      {"", x + "a" + x, x + "b" + x, `line 1 of the output is …"` + x[:40] + "a" + x[:59] + `"…, expected …"` + x[:40] + "b" + x[:59] + `"… (from column 5001 on)`},
		"cut":                   {"", strings.Repeat("x", 65536), strings.Repeat("x", 100000), `line 1 of the output is …"` + x[:40] + `", expected …"` + x[:40] + x[:60] + `"… (from column 65537 on)`},
		"many numbers":          {"", count(5000, " ", "7"), count(5000, " ", "5000"), `line 1 of the output is …"` + "91 4992 4993 4994 4995 4996 4997 4998 4999 "[3:] + `7", expected …"` + "91 4992 4993 4994 4995 4996 4997 4998 4999 "[3:] + `5000" (from column 23891 on)`},
		"last word missing":     {"", count(5000, " ", ""), count(5000, " ", "5000"), `line 1 of the output is …"` + "0 4991 4992 4993 4994 4995 4996 4997 4998 4999"[7:] + `", expected …"` + "0 4991 4992 4993 4994 4995 4996 4997 4998 4999 "[7:] + `5000" (from column 23891 on)`},
		"many lines":            {"", count(5000, "\n", "7"), count(5000, "\n", "5000"), `line 5001 of the output is "7", expected "5000"`},
		"long characters":       {"", strings.Repeat("é", 3000) + "a", strings.Repeat("é", 3000) + "b", `line 1 of the output is …"` + strings.Repeat("é", 20) + `a", expected …"` + strings.Repeat("é", 20) + `b" (from column 3001 on)`},
		"many blanks":           {"", "a" + spaces + "b", "a b", `line 1 of the output is "a ` + spaces[:60] + `"…, expected "a b" (from column 3 on; the outputs differ in blanks and line ends only)`},
		"exact, last line end":  {"exact", "a", "a\n", `line 1 of the output is "a", expected "a\n" (from column 2 on; the outputs differ in blanks and line ends only)`},
		"exact, line ends":      {"exact", "a\r\nb\r\n", "a\nb\n", `line 1 of the output is "a\r\n", expected "a\n" (from column 2 on; the outputs differ in blanks and line ends only)`},
		"exact, trailing":       {"exact", "a \n", "a\n", `line 1 of the output is "a \n", expected "a\n" (from column 2 on; the outputs differ in blanks and line ends only)`},
		"exact, late":           {"exact", strings.Repeat("a\n", 5000) + "b", strings.Repeat("a\n", 5000) + "c", `line 5001 of the output is "b", expected "c"`},
		"exact, missing":        {"exact", "a\n", "a\nb\n", `the output ends before line 2, expected "b\n"`},
		"exact, extra":          {"exact", "a\nb\n", "a\n", `line 2 of the output is "b\n", expected the end of the output`},
		"exact, empty":          {"exact", "", "a\n", `the output is empty, expected "a\n"`},
		"exact, empty line":     {"exact", "a\n\n", "a\n", `line 2 of the output is "\n", expected the end of the output (the outputs differ in blanks and line ends only)`},
		"exact, long":           {"exact", x + "a\n", x + "b\n", `line 1 of the output is …"` + x[:40] + `a\n", expected …"` + x[:40] + `b\n" (from column 5001 on)`},
		"tokens":                {"tokens", "1  2\n3", "1 2 4", `word 3 of the output (line 2) is "3", expected "4"`},
		"tokens, late":          {"tokens", count(5000, " ", "7"), count(5000, "\n", "5000"), `word 5001 of the output (line 1) is "7", expected "5000"`},
		"tokens, missing":       {"tokens", "1 2\n", "1 2 3\n", `the output ends before word 3, expected "3"`},
		"tokens, extra":         {"tokens", "1 2\n3\n", "1 2", `word 3 of the output (line 2) is "3", expected the end of the output`},
		"tokens, empty":         {"tokens", " \n", "1 2", `the output has blanks only, expected "1"`},
		"tokens, long":          {"tokens", "a " + x + "a", "a " + x + "b", `word 2 of the output (line 1) is …"` + x[:40] + `a", expected …"` + x[:40] + `b" (from character 5001 on)`},
		"tokens, case":          {"tokens", "Yes", "YES", `word 1 of the output (line 1) is "Yes", expected "YES" (the outputs differ in the case of letters only)`},
		"tokens, format":        {"tokens", "1.50 2", "1.5 2", `word 1 of the output (line 1) is "1.50", expected "1.5" (the numbers are equal, but text is compared)`},
		"floats":                {"floats", "1 2.5", "1 2.25", `word 2 of the output (line 1) is "2.5", expected "2.25" (the numbers differ by 0.25, more than the tolerance)`},
		"floats, late":          {"floats", count(5000, " ", "7"), count(5000, " ", "8.0"), `word 5001 of the output (line 1) is "7", expected "8.0" (the numbers differ by 1, more than the tolerance)`},
		"floats, no number":     {"floats", "1 nan", "1 2", `word 2 of the output (line 1) is "nan", expected "2" (it is not a finite number)`},
		"floats, word":          {"floats", "no", "yes", `word 1 of the output (line 1) is "no", expected "yes"`},
		"unordered":             {"unordered", "b\nx\na\n", "a\nb\nc\n", `line 2 of the output is "x", which is not expected; the line "c" is missing (lines in any order)`},
		"unordered, twice":      {"unordered", "a\na\nb\n", "a\nb\nb\n", `line 2 of the output is "a", which is expected only once; the line "b" is in the output only once (lines in any order)`},
		"unordered, missing":    {"unordered", "a\n", "a\nb\n", `the line "b" is missing (lines in any order)`},
		"unordered, extra":      {"unordered", "a\nb\n\nc", "b\na", `line 4 of the output is "c", which is not expected (lines in any order)`},
		"unordered, blanks":     {"unordered", "b \n a\n", "a\nb\n", `line 2 of the output is " a", which is not expected; the line "a" is missing (lines in any order)`},
		"unordered, late":       {"unordered", "q\n" + count(5000, "\n", "7"), count(5000, "\n", "q"), `line 5002 of the output is "7", which is expected only once (lines in any order)`},
		"unordered, long lines": {"unordered", x + "a\n", x + "b\n", `line 1 of the output is "` + x[:120] + `"…, which is not expected; the line "` + x[:120] + `"… is missing (lines in any order)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := job.Stdio{Compare: c.how}
			if same(t, c.got, c.want, s) {
				t.Fatal("they are the same")
			}
			if got := describe(t, c.got, c.want, s); got != c.is {
				t.Errorf("\n%s\nwant\n%s", got, c.is)
			}
		})
	}
	for _, how := range []job.Compare{"", "exact", "tokens", "floats", "unordered"} {
		for _, text := range []string{"", "a\n", "a b\nc", "\n"} {
			if got := describe(t, text, text, job.Stdio{Compare: how}); got != "" {
				t.Errorf("%q is said to differ from itself by %s: %s", text, how, got)
			}
		}
	}
	for _, how := range []job.Compare{"", "tokens", "floats"} {
		if got := describe(t, "YES b", "yes c", job.Stdio{Compare: how, IgnoreCase: true}); !strings.Contains(got, `b", expected `) || strings.Contains(got, "case") {
			t.Errorf("case does not count: %s", got)
		}
	}
}

// TestDescriptionsAreTrue checks that descriptions of differences are true for random outputs.
func TestDescriptionsAreTrue(t *testing.T) {
	t.Parallel()
	letters := []string{"a", "B", "b", "1", "1.0", " ", "  ", "\t", "\n", "\n\n", "\r\n", "é", "\u0301", "\u00a0", "\xff", "\xc3", strings.Repeat("x", 300), strings.Repeat("y ", 9000)}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 10).Draw(t, name), "")
		}
		common := draw("common")
		a, b := common+draw("a"), common+draw("b")
		for _, how := range []job.Compare{"exact", "whitespace", "tokens", "floats", "unordered"} {
			s := job.Stdio{Compare: how}
			if same(t, a, b, s) {
				continue
			}
			text := describe(t, a, b, s)
			if strings.Contains(text, "blanks and line ends only") && strings.Join(strings.FieldsFunc(a, isBlank), " ") != strings.Join(strings.FieldsFunc(b, isBlank), " ") {
				t.Fatalf("%s: %q and %q differ in more: %s", how, a, b, text)
			}
			shown := strings.Split(text, ", expected ")
			if len(shown) == 2 && strings.Contains(shown[0], " is ") {
				_, got, _ := strings.Cut(shown[0], " is ")
				if got == strings.SplitN(shown[1], " (", 2)[0] {
					t.Fatalf("%s: %q and %q look the same: %s", how, a, b, text)
				}
			}
			if len(text) > 1000 || strings.ContainsAny(text, "\n\r\t") {
				t.Fatalf("%s: %q", how, text)
			}
			if again := describe(t, a, b, s); again != text {
				t.Fatalf("%s, and then %s", text, again)
			}
		}
	})
}

func isBlank(r rune) bool { return r < 128 && isSpace(byte(r)) }

// TestDescribeWhatCannotBeRead checks that an unreadable output is no difference.
func TestDescribeWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	bad := errors.New("a disk")
	broken := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("a b\n"), iotest.ErrReader(bad))), nil
	}
	closed := func() (io.ReadCloser, error) { return nil, bad }
	for _, how := range []job.Compare{"exact", "whitespace", "tokens", "floats", "unordered"} {
		for _, c := range [][2]Source{{broken, source("a b\nc\n")}, {source("a b\nc\n"), broken}, {closed, source("")}} {
			if _, err := Describe(c[0], c[1], &job.Stdio{Compare: how}); !errors.Is(err, bad) {
				t.Errorf("%s: %v", how, err)
			}
		}
	}
}
