package grade

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

const methods = `
class Base:
    @staticmethod
    def inherited(x): return x + 1
class Inner:
    def twice(self, x): return 2 * x
class Solution(Base):
    made = 0
    def __init__(self): Solution.made += 1; self.n = 0; self.inner = Inner()
    def add(self, x):
        self.n += x
        return self.n
    @staticmethod
    def plain(x): return x + 1
    @classmethod
    def name(cls, x): return cls.__name__ + x
    class Part:
        def f(self, x): return -x
async def later(x):
    import asyncio
    await asyncio.sleep(0.01)
    if x < 0: raise ValueError("no")
    return x + 1
class Async:
    async def f(self, x): return await later(x)
make = Solution
`

func args(raw ...string) (out []json.RawMessage) {
	for _, r := range raw {
		out = append(out, json.RawMessage(r))
	}
	return out
}

// TestWhatMayBeUnderTest checks the forms of a function under test, in cases and in checks.
func TestWhatMayBeUnderTest(t *testing.T) {
	t.Parallel()
	for function, c := range map[string]struct{ arg, want string }{
		"Solution.add": {"2", "2"}, "Solution().add": {"2", "2"}, "make().add": {"2", "2"},
		"Solution.plain": {"2", "3"}, "Solution().plain": {"2", "3"}, "Solution.inherited": {"2", "3"}, "Solution.name": {`"x"`, `"Solutionx"`},
		"Solution().inner.twice": {"2", "4"}, "Solution.Part.f": {"2", "-2"}, "Solution.Part().f": {"2", "-2"},
		"later": {"2", "3"}, "Async.f": {"2", "3"}, "Async().f": {"2", "3"},
	} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			testenv.Sample(t)
			spec := &job.Tests{Code: methods, Function: function, Cases: []job.Case{
				{Args: args(c.arg), Expected: []byte(c.want)}, {Args: args(c.arg), Expected: []byte(c.want)}, {Args: args(c.arg)}, {ExpectedException: "TypeError"}},
				Check: "assert candidate(" + c.arg + ") == " + c.want + "\ntry:\n    candidate()\nexcept TypeError:\n    pass\nelse:\n    assert False"}
			if err := (job.Spec{Program: job.Program{Tests: spec}}).Validate(); err != nil {
				t.Fatal(err)
			}
			if r := runTests(t, spec); r.Outcome != job.Succeeded {
				t.Errorf("%s: %q %s", r.Outcome, r.Feedback, r.Stderr.Text)
			}
		})
	}
	for function, says := range map[string]string{
		"Solution().none": "no attribute 'none'", "none().f": "none is not defined", "Solution.made": "Solution.made is an int, and cannot be called", "later().f": "later() missing",
	} {
		if r := runTests(t, &job.Tests{Code: methods, Function: function, Cases: []job.Case{{}}}); r.Outcome != job.Failed || !strings.Contains(r.Feedback[0], says) {
			t.Errorf("%s: %s %q", function, r.Outcome, r.Feedback)
		}
	}
}

// TestCoroutines checks that coroutine functions are awaited in the solution's sandbox, and that a check's are run.
func TestCoroutines(t *testing.T) {
	t.Parallel()
	r := runTests(t, &job.Tests{Code: methods, Function: "later", Check: "async def test_a():\n    import asyncio\n    await asyncio.sleep(0)\n    assert candidate(1) == 2\n" +
		"async def test_b(candidate):\n    assert candidate(1) == 3\ndef test_c():\n    try:\n        candidate(-1)\n    except ValueError:\n        return\n    assert False\n" +
		"async def check(candidate):\n    assert candidate(3) == 4\n"})
	var got []string
	for _, c := range r.Tests.Cases {
		got = append(got, c.Name+" "+string(c.Outcome))
	}
	if want := "check succeeded, test_a succeeded, test_b failed, test_c succeeded"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s\n%q", got, want, r.Feedback)
	}
}

// TestCasesThatExpectNothing checks that a case without an expectation passes if the function returns.
func TestCasesThatExpectNothing(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code":"def f(x):\n    if x == 1: return f\n    if x == 2: return 'x' * (100 << 20)\n    if x == 3: raise ValueError(x)\n    if x == 4:\n        import os\n        os._exit(0)\n    return x","function":"f",
		"cases":[{"args":[1]},{"args":[2]},{"args":[3]},{"args":[4]},{"args":[5]},{"args":[6],"expected":null}]}`)
	var outcomes []string
	for _, c := range r.Tests.Cases {
		outcomes = append(outcomes, string(c.Outcome))
	}
	if got := strings.Join(outcomes, " "); got != "succeeded succeeded exception failed succeeded failed" {
		t.Errorf("%s %q", got, r.Feedback)
	}
	if c := r.Tests.Cases[2]; c.Expected != "no exception" {
		t.Errorf("%+v", c)
	}
}

// TestFurtherFunctions checks that a check gets the named further functions of the solution and no others. The result
// marks their answers as the solution's own.
func TestFurtherFunctions(t *testing.T) {
	t.Parallel()
	const code = "def encode(x): return x[::-1]\ndef decode(x): return x[::-1]\ndef other(x): return x\nclass Liar:\n    def __eq__(self, o): return True\ndef lie(x): return Liar()\n"
	for name, c := range map[string]struct {
		function, check string
		functions       []string
		want            job.Outcome
		self            bool
	}{
		"both":        {"decode", "assert decode(encode('ab')) == 'ab'", []string{"encode"}, job.Succeeded, true},
		"one only":    {"decode", "assert decode('ba') == 'ab'", []string{"encode"}, job.Succeeded, false},
		"no function": {"", "assert encode('ab') == 'ba'\nassert candidate('ab') == 'ba'", []string{"encode", "decode"}, job.Succeeded, true},
		"HumanEval":   {"", "def check(candidate):\n    assert candidate('ab') == 'ba'", []string{"encode"}, job.Succeeded, false},
		"wrong":       {"decode", "assert encode('ab') == 'ab'", []string{"encode"}, job.Failed, true},
		"not listed":  {"decode", "assert decode(other('a')) == 'a'", []string{"encode"}, job.CheckError, false},
		"missing":     {"decode", "assert decode('ba') == 'ab'", []string{"absent"}, job.Exception, false},
		"of liars":    {"decode", "assert lie(1) == 2", []string{"lie"}, job.Failed, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := &job.Tests{Code: code, Function: c.function, Functions: c.functions, Check: c.check}
			if err := (job.Spec{Program: job.Program{Tests: spec}}).Validate(); err != nil {
				t.Fatal(err)
			}
			r := runTests(t, spec)
			if got := r.Tests.Cases[0]; got.Outcome != c.want || got.SelfReported != c.self {
				t.Errorf("%+v, want %s, self_reported %v", got, c.want, c.self)
			}
			if name == "wrong" && !strings.Contains(r.Feedback[0], "encode('ab') returned 'ba', expected 'ab'") {
				t.Errorf("%q", r.Feedback)
			}
		})
	}
}

// TestExceptionsOfSolutions checks that the result has the first exception that failed the solution, with the
// solution's own frames only.
func TestExceptionsOfSolutions(t *testing.T) {
	t.Parallel()
	const code = "def g(x):\n    return {}[x]\n\ndef f(x):\n    return g(x)\n"
	traceback := "Traceback (most recent call last):\n  File \"<solution>\", line 5, in f\n    return g(x)\n  File \"<solution>\", line 2, in g\n    return {}[x]\nKeyError: 'k'\n"
	raised := &job.ExceptionInfo{Type: "KeyError", Message: "'k'", Line: 2, Traceback: traceback}
	syntax := "Traceback (most recent call last):\n  File \"<solution>\", line 1\n    def f(x return\n            ^^^^^^\nSyntaxError: invalid syntax\n"
	for name, c := range map[string]struct {
		tests job.Tests
		want  *job.ExceptionInfo
	}{
		"a case":               {job.Tests{Code: code, Cases: []job.Case{{Args: args(`"k"`), Expected: []byte("1")}, {Args: args(`"l"`), Expected: []byte("1")}}}, raised},
		"another was expected": {job.Tests{Code: code, Cases: []job.Case{{Args: args(`"k"`), ExpectedException: "ValueError"}}}, raised},
		"it was expected":      {job.Tests{Code: code, Cases: []job.Case{{Args: args(`"k"`), ExpectedException: "KeyError"}, {Args: args(`"k"`), ExpectedException: "LookupError"}}}, nil},
		"a check":              {job.Tests{Code: code, Check: "secret = 'hidden'\nassert f('k') == secret, secret"}, raised},
		"a check that catches": {job.Tests{Code: code, Check: "try: f('k')\nexcept KeyError: pass\nassert f.__name__ == 'hidden'"}, nil},
		"a wrong answer":       {job.Tests{Code: "def f(x): return x", Check: "assert f('k') == 'hidden'"}, nil},
		"a check's own":        {job.Tests{Code: code, Check: "raise ValueError('hidden')"}, nil},
		"a setup's":            {job.Tests{Code: code, Setup: "raise ValueError('hidden')", Cases: make([]job.Case, 1)}, nil},
		"a syntax error":       {job.Tests{Code: "def f(x return", Cases: make([]job.Case, 1)}, &job.ExceptionInfo{Type: "SyntaxError", Message: "invalid syntax", Line: 1, Traceback: syntax}},
		"while it is loaded": {job.Tests{Code: "x = 1\n1 / 0", Check: "f(1)"}, &job.ExceptionInfo{Type: "ZeroDivisionError", Message: "division by zero", Line: 2,
			Traceback: "Traceback (most recent call last):\n  File \"<solution>\", line 2, in <module>\n    1 / 0\nZeroDivisionError: division by zero\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.tests.Function = "f"
			r := runTests(t, &c.tests)
			if diff := cmp.Diff(c.want, r.Exception); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	r := runTests(t, &job.Tests{Code: "def f(x): return f(x)", Function: "f", Cases: make([]job.Case, 1), Check: "f(1)"})
	if e := r.Exception; e == nil || e.Type != "TypeError" {
		t.Errorf("%+v", e)
	}
	r = runTests(t, &job.Tests{Code: "def f(x): return f(x)", Function: "f", Check: "f(1)"})
	if e := r.Exception; e == nil || e.Type != "RecursionError" || len(e.Traceback) > 8<<10 || !strings.Contains(e.Traceback, "frames …") {
		t.Errorf("%+v", e)
	}
}

// TestExceptionsOfScripts checks that the result has a script's exception and last lines, from its stderr.
func TestExceptionsOfScripts(t *testing.T) {
	t.Parallel()
	r := run(t, `{"setup":"import sys","code":"x = 1\nsys.stderr.write('note\\n' * 1000)\nint(input())\n","stdio":[{"stdin":"1","stdout":"","memory":"100Mi","wall":"1m"},{"stdin":"k","stdout":""},{"stdin":"","stdout":"","argv":["sh","-c","echo no >&2; exit 3"]}]}`)
	e := r.Exception
	if e == nil || e.Type != "ValueError" || e.Line != 3 || e.Message != "invalid literal for int() with base 10: 'k'" || !strings.HasPrefix(e.Traceback, "Traceback (most") || !strings.HasSuffix(e.Traceback, "'k'\n") {
		t.Fatalf("%+v", e)
	}
	cases := r.Tests.Cases
	if c := cases[0]; !c.Passed || c.Stderr != "" || c.Limits.Memory != 100*job.MiB || c.Limits.Wall > job.Duration(time.Minute) || c.Limits.Wall == 0 {
		t.Errorf("%+v", c)
	}
	if c := cases[1]; len(c.Stderr) > maxTail || !strings.HasPrefix(c.Stderr, "note\n") || !strings.HasSuffix(c.Stderr, "'k'") {
		t.Errorf("%+v", c)
	}
	if c := cases[2]; c.Stderr != "no" || c.Limits.Memory != 256*job.MiB {
		t.Errorf("%+v", c)
	}
	for said, want := range map[string]*exception{
		"": nil, "no": nil, "Traceback (most recent call last):\n": nil,
		"SyntaxError: no": nil,
		"  File \"/workspace/solution.py\", line 2\n    f(\n     ^\nSyntaxError: never\n": {Type: "SyntaxError", Message: "never", Line: 2, Traceback: "  File \"/workspace/solution.py\", line 2\n    f(\n     ^\nSyntaxError: never\n"},
		"Traceback (most recent call last):\n  File \"/workspace/solution.py\", line 9, in f\nKeyError\n\nDuring\n\nTraceback (most recent call last):\n  File \"/workspace/solution.py\", line 1, in <module>\n  File \"/usr/x.py\", line 7, in g\njson.Error": {
			Type: "json.Error", Line: 1, Traceback: "Traceback (most recent call last):\n  File \"/workspace/solution.py\", line 1, in <module>\n  File \"/usr/x.py\", line 7, in g\njson.Error"},
	} {
		if diff := cmp.Diff(want, (&grading{Config: Config{Tests: &job.Tests{}}}).printed(said)); diff != "" {
			t.Errorf("%q: -want +got\n%s", said, diff)
		}
	}
}

// TestHints checks that derived exceptions get the hints of their bases.
func TestHints(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"assert x == 2":                                 "AssertionError at line 2: assert x == 2 (an assert of the code itself does not hold)",
		"open('/no/such')":                              "(there is no such file here)",
		"raise OSError(5, 'bad')":                       "(the system refuses it: files and other resources are limited here)",
		"raise ConnectionRefusedError":                  "(the system refuses it: files and other resources are limited here)",
		"raise TimeoutError('late')":                    "TimeoutError: late at line 2: raise TimeoutError('late') (it waited for something that did not come in time)",
		"raise type('Own', (PermissionError,), {})('')": "(that is not allowed here)",
		"raise Exception('no')":                         "raise Exception('no')",
	} {
		r := runTests(t, &job.Tests{Code: "def f(x):\n    " + code, Function: "f", Cases: []job.Case{{Args: args("1")}}})
		if !strings.HasSuffix(r.Feedback[0], want) {
			t.Errorf("%q does not end with %q", r.Feedback, want)
		}
	}
	if r := run(t, `{"code":"def f(x):\n    assert x == 2","function":"f","check":"f(1)"}`); !strings.Contains(r.Feedback[0], "f(1) raised AssertionError (an assert of") {
		t.Errorf("%q", r.Feedback)
	}
}
