package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// echoes copy their input, byte by byte.
var echoes = map[string]string{
	"python": "import shutil, sys\nshutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)",
	"cpp":    "#include <cstdio>\nint main() { static char b[65536]; size_t n; while ((n = fread(b, 1, sizeof b, stdin)) > 0) fwrite(b, 1, n, stdout); }",
}

// comparison is an output, the expected output, and whether they match.
type comparison struct {
	how       job.Stdio
	got, want string
	same      bool
}

var (
	exact      = job.Stdio{Compare: job.CompareExact}
	whitespace = job.Stdio{Compare: job.CompareWhitespace}
	tokens     = job.Stdio{Compare: job.CompareTokens}
	anyCase    = job.Stdio{Compare: job.CompareTokens, IgnoreCase: true}
	floats     = job.Stdio{Compare: job.CompareFloats}
	absolute   = job.Stdio{Compare: job.CompareFloats, AbsoluteTolerance: 0.1}
	relative   = job.Stdio{Compare: job.CompareFloats, RelativeTolerance: 0.01}
	either     = job.Stdio{Compare: job.CompareFloats, AbsoluteTolerance: 0.1, RelativeTolerance: 0.01}
	unordered  = job.Stdio{Compare: job.CompareUnordered}
)

var compared = []comparison{
	{exact, "a\n", "a\n", true}, {exact, "a", "a\n", false}, {exact, "a \n", "a\n", false}, {exact, "a\r\n", "a\n", false}, {exact, "", "", true},
	{exact, "a\x00b", "a\x00b", true}, {exact, "a\x00b", "a\x00c", false}, {exact, "a\x00", "a", false}, {exact, "\xff\xfe", "\xff\xfe", true},
	{exact, "\xff", "\xfe", false}, {exact, "\xff", "\uFFFD", false}, {exact, "\u00e9", "e\u0301", false},

	{job.Stdio{}, "a \nb\t\n\n\n", "a\nb", true}, {whitespace, "a\r\nb\r\n", "a\nb\n", true}, {whitespace, "a\rb", "a\nb", false}, {whitespace, " a", "a", false},
	{whitespace, "a\n\nb", "a\nb", false}, {whitespace, "a  b", "a b", false}, {whitespace, "\n\n", "", true}, {whitespace, "a", "", false}, {whitespace, "", "a", false},
	{whitespace, "\x00", "", false}, {whitespace, "a\x00", "a\x00 ", true}, {whitespace, "\xff", "\xfe", false}, {whitespace, "\xff \n", "\xff", true}, {whitespace, "\xff", "\uFFFD", false},

	{tokens, "1  2\n3", "1 2 3\n", true}, {tokens, "1\r\n2\v3\f", "1 2 3", true}, {tokens, "12", "1 2", false}, {tokens, "1 2", "1 2 3", false}, {tokens, "1 2 3", "1 2", false},
	{tokens, "1\u00a02", "1 2", false}, {tokens, "A", "a", false}, {anyCase, "YES no", "yes NO", true}, {anyCase, "\u00c9", "\u00e9", false}, {tokens, "1.0", "1", false},
	{tokens, "a\x00b", "a b", false}, {tokens, "\xff\x00", "\xff\x00\n", true}, {tokens, "\xff", "\xfe", false},

	{floats, "1.0000001", "1", true}, {floats, "1.1", "1", false}, {floats, "1 2", "1", false}, {floats, "1\r\n", "1.0 \n", true}, {floats, "x", "x", true}, {floats, "x", "1", false},
	{floats, "1000000.5", "1000000", true}, {floats, "1e3", "1000", true}, {floats, "+1", "1", true}, {floats, ".5", "0.5", true}, {floats, "1,5", "1.5", false},
	{floats, "nan", "nan", true}, {floats, "nan", "1", false}, {floats, "1", "nan", false}, {floats, "nan", "0", false}, {floats, "inf", "inf", true}, {floats, "inf", "-inf", false},
	{floats, "inf", "1e308", false}, {floats, "1e308", "inf", false}, {floats, "-0", "0", true}, {floats, "-0.0", "0", true}, {floats, "-0.0", "0.0000001", true},
	{floats, "1e400", "1e400", true}, {floats, "1e400", "2e400", false}, {floats, "1e400", "inf", false}, {floats, "1e400", "1", false}, {floats, "1e308", "1e400", false}, {floats, "1e-400", "0", true},
	{floats, "1\x00", "1", false}, {floats, "1\xff", "1", false}, {floats, "1_0", "10", false}, {floats, "0x10p0", "16", true}, {floats, "0x10p0", "0x10p0", true},
	{absolute, "1.05", "1", true}, {absolute, "1.2", "1", false}, {absolute, "1000001", "1000000", false}, {absolute, "-0.09", "0", true}, {absolute, "nan", "1", false}, {absolute, "1e308", "-1e308", false},
	{relative, "101", "100", true}, {relative, "102", "100", false}, {relative, "0.001", "0", false}, {relative, "0", "0", true}, {relative, "-100", "100", false}, {relative, "inf", "1e308", false},
	{either, "0.09", "0", true}, {either, "1005", "1000", true}, {either, "1020", "1000", false},

	{unordered, "b\na\n", "a\nb\n", true}, {unordered, "a\r\n\nb  ", "b\na\n", true}, {unordered, "a\na\nb", "a\nb\nb", false}, {unordered, "b a", "a b", false}, {unordered, "a", "a\na", false},
	{unordered, "\x00\n\xff", "\xff\n\x00\n", true}, {unordered, "\x00\n\xff", "\xfe\n\x00\n", false}, {unordered, "ab\nc", "a\nbc", false}, {unordered, "\n", "", true},
}

// comparisons are the same for all languages of the program.
func comparisons(t *testing.T, f *fleet) {
	for language, code := range echoes {
		var tests job.Tests
		for i, c := range compared {
			s := c.how
			s.Name = fmt.Sprintf("%d", i)
			s.StdinBase64, s.StdoutBase64 = base64.StdEncoding.EncodeToString([]byte(c.got)), base64.StdEncoding.EncodeToString([]byte(c.want))
			tests.Stdio = append(tests.Stdio, s)
		}
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			r := judged(t, f, language, code, tests)
			if r.Tests == nil || len(r.Tests.Cases) != len(compared) {
				t.Fatalf("%s: %s, %+v", r.Outcome, r.Message, r.Tests)
			}
			for i, got := range r.Tests.Cases {
				c, want := compared[i], job.Failed
				if c.same {
					want = job.Succeeded
				}
				if got.Passed != c.same || got.Outcome != want {
					t.Errorf("%q for %q, by %s %+v: %s %s", c.got, c.want, c.how.Compare, c.how, got.Outcome, got.Message)
				}
			}
		})
	}
}

// longLines are of 50 MB, and equal except for the last byte in one case.
func longLines(t *testing.T, f *fleet) {
	const size = 50_000_000
	word, words := bytes.Repeat([]byte("x"), size), bytes.Repeat([]byte("1.5 "), size/4)
	upload := func(b []byte, last byte) string {
		b[len(b)-1] = last
		digest, err := f.api.PutBlob(t.Context(), bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	x, y, spaced, other := upload(word, 'x'), upload(word, 'y'), upload(words, ' '), upload(words, '7')
	var tests job.Tests
	var same []bool
	add := func(how job.Compare, got, want string, is bool) {
		tests.Stdio = append(tests.Stdio, job.Stdio{Compare: how, StdinBlob: got, StdoutBlob: want, Wall: job.Duration(30 * time.Second)})
		same = append(same, is)
	}
	for _, how := range []job.Compare{job.CompareExact, job.CompareWhitespace, job.CompareTokens, job.CompareFloats, job.CompareUnordered} {
		add(how, x, x, true)
		add(how, y, x, false)
	}
	add(job.CompareFloats, spaced, spaced, true)
	add(job.CompareFloats, other, spaced, false)
	r := judged(t, f, "cpp", echoes["cpp"], tests)
	if r.Tests == nil || len(r.Tests.Cases) != len(same) {
		t.Fatalf("%s: %s, %+v", r.Outcome, r.Message, r.Tests)
	}
	for i, c := range r.Tests.Cases {
		if c.Passed != same[i] || !c.Passed && c.Outcome != job.Failed || len(c.Message)+len(c.Got)+len(c.Expected) > 5000 {
			t.Errorf("%s, case %d: %s, want the same: %v; %.200s", tests.Stdio[i].Compare, i, c.Outcome, same[i], c.Message)
		}
	}
}

// limitsByLanguage multiply the limits of a case.
func limitsByLanguage(t *testing.T, f *fleet) {
	tests := job.Tests{
		Limits: map[string]job.Multiplier{"python": {Wall: 3, Memory: 3}, "cpp": {Wall: 0.25}},
		Stdio:  []job.Stdio{{Stdout: "1", Wall: job.Duration(2 * time.Second), Memory: 64 * job.MiB}},
	}
	for name, c := range map[string]struct {
		language, code string
		want           job.Outcome
		wall           time.Duration
		memory         job.Size
	}{
		"python, 3 s of 6":       {"python", "import time\ntime.sleep(3)\nprint(1)", job.Succeeded, 6 * time.Second, 192 * job.MiB},
		"python, no end":         {"python", "while True: pass", job.TimedOut, 6 * time.Second, 192 * job.MiB},
		"python, 100 of 192 MiB": {"python", "x = b'x' * (100 << 20)\nprint(1)", job.Succeeded, 6 * time.Second, 192 * job.MiB},
		"python, 200 of 192 MiB": {"python", "x = b'x' * (200 << 20)\nprint(1)", job.OutOfMemory, 6 * time.Second, 192 * job.MiB},
		"C++, at once":           {"cpp", "#include <cstdio>\nint main() { puts(\"1\"); }", job.Succeeded, 500 * time.Millisecond, 64 * job.MiB},
		"C++, 1 s of half":       {"cpp", "#include <cstdio>\n#include <unistd.h>\nint main() { sleep(1); puts(\"1\"); }", job.TimedOut, 500 * time.Millisecond, 64 * job.MiB},
		"C++, 100 of 64 MiB":     {"cpp", "#include <cstdio>\n#include <cstdlib>\n#include <cstring>\nint main() { volatile char *p = (char *)malloc(100 << 20); for (long i = 0; i < 100 << 20; i += 4096) p[i] = 1; printf(\"%d\\n\", p[7]); }", job.OutOfMemory, 500 * time.Millisecond, 64 * job.MiB},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := judged(t, f, c.language, c.code, tests)
			score := 0.0
			if c.want == job.Succeeded {
				score = 1
			}
			wantCase(t, r, c.want, score, "")
			if l := r.Tests.Cases[0].Limits; l == nil || l.Wall.D() != c.wall || l.Memory != c.memory {
				t.Errorf("it ran with %+v", l)
			}
		})
	}
}

// stopOnFailure omits the cases after a failure, also those that had begun.
func stopOnFailure(t *testing.T, f *fleet) {
	for language, code := range echoes {
		tests := job.Tests{StopOnFailure: true}
		for i := range 6 {
			want := "a"
			if i == 2 {
				want = "b"
			}
			tests.Stdio = append(tests.Stdio, job.Stdio{Stdin: "a", Stdout: want})
		}
		r := judged(t, f, language, code, tests)
		if r.Outcome != job.Failed || r.Tests == nil || r.Tests.Passed != 2 || len(r.Tests.Cases) != 6 {
			t.Errorf("%s: %s %+v", language, r.Outcome, r.Tests)
			continue
		}
		for i, want := range []job.Outcome{job.Succeeded, job.Succeeded, job.Failed, job.OutcomeCanceled, job.OutcomeCanceled, job.OutcomeCanceled} {
			if got := r.Tests.Cases[i].Outcome; got != want {
				t.Errorf("%s, case %d: %s, want %s", language, i, got, want)
			}
		}
	}
}
