package cheats

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

// teller is a program that writes the bytes with which it was compiled.
const teller = `#include <stdio.h>
int main(void) { static const unsigned char all[] = {WHAT}; fwrite(all, 1, sizeof all, stdout); }
`

// told returns the source of a teller of text.
func told(text string) string {
	var bytes strings.Builder
	for _, b := range []byte(text) {
		fmt.Fprintf(&bytes, "%d,", b)
	}
	return strings.Replace(teller, "WHAT", bytes.String(), 1)
}

// Expected outputs may have NUL and non-text bytes: they are compared as bytes, whatever their
// display looks like.
func TestOddBytesAreCompared(t *testing.T) {
	c, err := language.Find("c")
	if err != nil {
		t.Fatal(err)
	}
	pairs := []struct{ expected, similar string }{
		{"a\x00b", "a"}, {"a\x00b", "ab"}, {"a\x00b", "a b"}, {"a\x00b", "a\xef\xbf\xbdb"}, {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"}, {"\xff", "\xfe"},
		{"x\xff\ny", "x\ny"}, {"\xc3\xa9", "e\xcc\x81"}, {"1\x00", "1"}, {"\x00", " "}, {"a\xc2\xa0b", "a b"}, {"a\xe2\x80\x8b", "a"}, {"1\xff", "1.0"},
	}
	eachWall(t, func(t *testing.T, f *fleet) {
		s := newShop(t, f)
		for i, p := range part(t, f, pairs) {
			for text, right := range map[string]bool{p.expected: true, p.similar: false} {
				tests := &job.Tests{Language: "c"}
				for _, how := range []job.Compare{job.CompareExact, job.CompareWhitespace, job.CompareTokens, job.CompareFloats, job.CompareUnordered} {
					tests.Stdio = append(tests.Stdio, job.Stdio{Compare: how, StdoutBlob: "blob"},
						job.Stdio{Compare: how, StdoutBase64: base64.StdEncoding.EncodeToString([]byte(p.expected))})
				}
				rep, err := s.judge(t, c, s.compiled(t, "test", c, told(text)), tests, map[string]string{"blob": p.expected})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range rep.Tests.Cases {
					if r.Passed != right || r.Outcome != map[bool]job.Outcome{true: job.Succeeded, false: job.Failed}[right] {
						t.Errorf("%d: %q is expected, and %q is %v: %+v", i, p.expected, text, r.Passed, r)
					}
				}
			}
		}
	})
}

// Unread input blocks nothing, regardless of its size. Nor do programs that close it or read it slowly.
func TestInputThatNobodyReads(t *testing.T) {
	c, err := language.Find("c")
	if err != nil {
		t.Fatal(err)
	}
	endless := strings.Repeat("0123456789abcdef", 4<<20) // 64 MiB
	ways := map[string]string{
		"reads nothing": `puts("done");`,
		"closes it":     `close(0); usleep(300000); puts("done");`,
		"reads a byte":  `getchar(); puts("done");`,
		"slowly":        `char b[65536]; for (int i = 0; i < 20; i++) { usleep(20000); if (read(0, b, sizeof b) < 0) return 1; } puts("done");`,
	}
	eachWall(t, func(t *testing.T, f *fleet) {
		s := newShop(t, f)
		for name, body := range ways {
			out := s.compiled(t, "test", c, "#include <stdio.h>\n#include <unistd.h>\nint main(void) { "+body+" }\n")
			tests := &job.Tests{Language: "c", Stdio: []job.Stdio{{StdinBlob: "input", Stdout: "done"}, {Stdin: endless[:4<<20], Stdout: "done"}}}
			rep, err := s.judge(t, c, out, tests, map[string]string{"input": endless})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Outcome != job.Succeeded || rep.Tests.Passed != 2 {
				t.Errorf("%s: %s %+v", name, rep.Outcome, rep.Tests)
			}
		}
	})
}

// Sources that could help a forgery are refused by name, before anything runs.
func TestSourcesThatAreRefused(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 10<<20)
	code := func(files map[string]string) job.Program {
		return job.Program{Code: &job.Code{Language: "c", Files: files}}
	}
	named := func(name string) job.Program { return code(map[string]string{"main.c": "x", name: "x"}) }
	for name, c := range map[string]struct {
		program job.Program
		field   string
	}{
		"10 MB of source":             {job.Program{Code: &job.Code{Language: "c", Source: large}}, "program.code.source"},
		"10 MB in a file":             {code(map[string]string{"main.c": large}), "program.code.files"},
		"10 MB of a solution":         {job.Program{Tests: &job.Tests{Language: "c", Code: large, Stdio: []job.Stdio{{}}}}, "program.tests.code"},
		"10 MB of a checker":          {checked(&job.Code{Language: "c", Source: large}), "program.tests.checker.code.source"},
		"a checker whose file climbs": {checked(&job.Code{Language: "c", Files: map[string]string{"../case/answer": "x"}}), "program.tests.checker.code.files"},
		"zeros":                       {job.Program{Code: &job.Code{Language: "c", Source: "int\x00main"}}, "program.code.source"},
		"a climbing name":             {named("../x.c"), "program.code.files"},
		"one that climbs later":       {named("a/../../x.c"), "program.code.files"},
		"an absolute one":             {named("/etc/passwd"), "program.code.files"},
		"one of ours":                 {named(".out/main"), "program.code.files"},
		"a hidden one":                {named(".bashrc"), "program.code.files"},
		"an option":                   {named("-o"), "program.code.files"},
		"a plugin":                    {named("-fplugin=a.so.c"), "program.code.files"},
		"a file of options":           {named("@options.c"), "program.code.files"},
		"zeros in a name":             {named("a\x00.c"), "program.code.files"},
		"lines in a name":             {named("a\n-o.c"), "program.code.files"},
		"no text in a name":           {named("\xff.c"), "program.code.files"},
		"a file as a directory":       {named("main.c/x.c"), "program.code.files"},
		"a name without end":          {named(strings.Repeat("a/", 5000) + "x.c"), "program.code.files"},
		"a part without end":          {named(strings.Repeat("a", 5000) + ".c"), "program.code.files"},
		"a main file that is none":    {job.Program{Code: &job.Code{Language: "c", Main: "../../etc/passwd", Files: map[string]string{"main.c": "x"}}}, "program.code.main"},
		"flags without end":           {job.Program{Code: &job.Code{Language: "c", Source: "x", Compile: &job.Compile{Flags: []string{large[:1<<20]}}}}, "program.code.compile.flags"},
		"negative time":               {job.Program{Code: &job.Code{Language: "c", Source: "x", Compile: &job.Compile{Wall: -1}}}, "program.code.compile.wall"},
		"years":                       {job.Program{Code: &job.Code{Language: "c", Source: "x", Compile: &job.Compile{Wall: job.Duration(90000 * time.Hour)}}}, "program.code.compile.wall"},
		"a language with an escape":   {job.Program{Code: &job.Code{Language: "c\x1b[2J", Source: "x"}}, "program.code.language"},
		"a language without end":      {job.Program{Code: &job.Code{Language: large, Source: "x"}}, "program.code.language"},
	} {
		err := (&job.Spec{Program: c.program}).Validate()
		if err == nil || !strings.HasPrefix(err.Error(), c.field) {
			t.Errorf("%s: %.200v, and not of %s", name, err, c.field)
		}
		if err != nil && (len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\x00\x1b")) {
			t.Errorf("%s: the error is %d bytes: %.300q", name, len(err.Error()), err)
		}
	}
}

func checked(c *job.Code) job.Program {
	return job.Program{Tests: &job.Tests{Code: "x", Stdio: []job.Stdio{{}}, Checker: &job.Checker{Code: c}}}
}
