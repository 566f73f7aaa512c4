package grade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

func TestCrashLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ stderr, want string }{
		"python":          {"warning\nTraceback (most recent call last):\n  File \"solution.py\", line 1, in <module>\n    int('x')\nValueError: invalid literal\n", "ValueError: invalid literal"},
		"python, lines":   {"Traceback (most recent call last):\n  File \"solution.py\", line 1, in <module>\n    raise ValueError('a\\nb')\nValueError: a\nb\n", "ValueError: a"},
		"python, chained": {"Traceback (most recent call last):\n  File \"a\", line 1\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a\", line 2\nTypeError: 2\n", "TypeError: 2"},
		"syntax error":    {"  File \"solution.py\", line 1\n    x =\n       ^\nSyntaxError: invalid syntax\n", "SyntaxError: invalid syntax"},
		"java":            {"Exception in thread \"main\" java.lang.ArithmeticException: / by zero\n\tat Main.main(Main.java:3)\n", `Exception in thread "main" java.lang.ArithmeticException: / by zero`},
		"rust":            {"\nthread 'main' (12) panicked at main.rs:2:5:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1` environment variable\n", "thread 'main' (12) panicked at main.rs:2:5: index out of bounds"},
		"rust, old":       {"thread 'main' panicked at 'index out of bounds', main.rs:1:53\nnote: run with `RUST_BACKTRACE=1`\n", "thread 'main' panicked at 'index out of bounds', main.rs:1:53"},
		"ruby":            {"main.rb:1:in `<main>': undefined method `foo' for nil:NilClass (NoMethodError)\n\nnil.foo\n   ^^^^\n", "main.rb:1:in `<main>': undefined method `foo' for nil:NilClass (NoMethodError)"},
		"php":             {"PHP Fatal error:  Uncaught Exception: a in /workspace/main.php:1\nStack trace:\n#0 {main}\n  thrown in /workspace/main.php on line 1\n", "PHP Fatal error:  Uncaught Exception: a in /workspace/main.php:1"},
		"lua":             {"lua5.4: main.lua:1: x\nstack traceback:\n\t[C]: in function 'error'\n\t[C]: in ?\n", "lua5.4: main.lua:1: x"},
		"c#":              {"\nUnhandled Exception:\nSystem.Exception: x\n  at P.Main () [0x00000] in <9c>:0 \n[ERROR] FATAL UNHANDLED EXCEPTION: System.Exception: x\n  at P.Main ()\n", "Unhandled Exception: System.Exception: x"},
		"c#, new":         {"Unhandled exception. System.Exception: x\n   at P.Main()\n", "Unhandled exception. System.Exception: x"},
		"go":              {"panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/workspace/main.go:5 +0x1d\nexit status 2\n", "panic: runtime error: index out of range [5] with length 3"},
		"c++":             {"terminate called after throwing an instance of 'std::out_of_range'\n  what():  vector::_M_range_check\n", "terminate called after throwing an instance of 'std::out_of_range' what():  vector::_M_range_check"},
		"node":            {"/workspace/main.js:1\nx.y\n^\n\nReferenceError: x is not defined\n    at Object.<anonymous> (/workspace/main.js:1:1)\n\nNode.js v22.1.0\n", "ReferenceError: x is not defined"},
		"words":           {"first\nlast  word\n\n", "last  word"},
		"nothing":         {"\n \n", ""},
	} {
		if got := crashLine(c.stderr); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestFeedbackLines checks that failures of one kind have one line, which is the same in every run and shows blanks.
func TestFeedbackLines(t *testing.T) {
	t.Parallel()
	raised := func(name, call, text string) job.CaseResult {
		return job.CaseResult{Name: name, Outcome: job.Exception, Message: call + ": raised " + text}
	}
	slow := func(name, after string) job.CaseResult {
		return job.CaseResult{Name: name, Outcome: job.TimedOut, Message: "f(1): " + tooSlow + " (stopped after " + after + ")"}
	}
	wrong := func(name, message string) job.CaseResult {
		return job.CaseResult{Name: name, Outcome: job.Failed, Message: message}
	}
	for name, c := range map[string]struct {
		cases []job.CaseResult
		want  []string
	}{
		"exceptions of one line": {[]job.CaseResult{raised("case 1", "f(1)", "ValueError: bad at line 3: raise ValueError('bad') (a hint)"), raised("case 2", "f('x): y')", "ValueError: bad at line 3: raise ValueError('bad') (a hint)"), raised("case 3", "f(3)", "ValueError: bad at line 3: raise ValueError('bad') (a hint)"),
			raised("case 4", "f(4)", "ValueError: bad at line 4: raise ValueError('bad') (a hint)"), raised("case 5", "f(5)", "KeyError: 5 at line 3 (a hint)")},
			[]string{"case 1: f(1): raised ValueError: bad at line 3: raise ValueError('bad') (a hint) [and 1 more]", "case 2: f('x): y'): raised ValueError: bad at line 3: raise ValueError('bad') (a hint)",
				"case 4: f(4): raised ValueError: bad at line 4: raise ValueError('bad') (a hint)", "case 5: f(5): raised KeyError: 5 at line 3 (a hint)"}},
		"keys of one line": {[]job.CaseResult{raised("a", "f(1)", "KeyError: 1 at line 3: d[x] (a hint)"), raised("b", "f(2)", "KeyError: 2 at line 3: d[x] (a hint)")}, []string{"a: f(1): raised KeyError: 1 at line 3: d[x] (a hint) [and 1 more]"}},
		"time-outs":        {[]job.CaseResult{slow("a", "961ms"), slow("b", "1.5s"), wrong("c", "f(2): returned 1, expected 2")}, []string{"a: f(1): " + tooSlow + " [and 1 more]", "c: f(2): returned 1, expected 2"}},
		"wrong values":     {[]job.CaseResult{wrong("a", "f(1): returned 1, expected 2"), wrong("b", "f(2): returned 1, expected 2")}, []string{"a: f(1): returned 1, expected 2", "b: f(2): returned 1, expected 2"}},
		"blanks":           {[]job.CaseResult{wrong("a", `line 1 of the output is "a  b", expected "a b"`), wrong("b", "x\ty\n  z\u00a0")}, []string{`a: line 1 of the output is "a  b", expected "a b"`, `b: x\ty z\u00a0`}},
		"passed":           {[]job.CaseResult{{Name: "a", Passed: true}, {Name: "b", Outcome: job.OutcomeCanceled, Message: "not run"}}, nil},
	} {
		if diff := cmp.Diff(c.want, feedback(c.cases)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var many []job.CaseResult
	for i := range 50 {
		many = append(many, wrong("x", strings.Repeat("y", i)))
	}
	if got := feedback(many); len(got) != maxFeedback+1 || got[maxFeedback] != "more cases failed" {
		t.Errorf("%q", got)
	}
}

// TestFeedbackOfLongOutputs checks that message and feedback describe long outputs and values correctly.
func TestFeedbackOfLongOutputs(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code": "n = int(input())\nif n == 1: print('x' * 5000 + 'a')\nif n == 2: print(*range(5000), 7)\nif n == 3: print('a  b')\nif n == 4: print('x' * 65536)",
		"stdio": [{"stdin": "1", "stdout": "`+strings.Repeat("x", 5000)+`b"}, {"stdin": "2", "stdout": "`+strings.Repeat("0 ", 4999)+`1"}, {"stdin": "3", "stdout": "a b"},
			{"stdin": "4", "stdout": "`+strings.Repeat("x", 100000)+`"}]}`)
	for i, want := range []string{`xxxa", expected …"xxx`, `line 1 of the output is "0 1 2 3`, `is "a  b", expected "a b" (from column 3 on; the outputs differ in blanks and line ends only)`, `(from column 65537 on)`} {
		if got := r.Tests.Cases[i].Message; !strings.Contains(got, want) || i != 2 && strings.Contains(got, "blanks") {
			t.Errorf("message %q does not say %q", got, want)
		}
		if got := r.Feedback[i]; !strings.Contains(got, want) {
			t.Errorf("feedback %q does not say %q", got, want)
		}
	}
}

func TestFeedbackOfLongValues(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code": "def f(n):\n    if n == 1: return [0] * 5000\n    if n == 2: return {'a': {'b': ['x' * 3000 + 'y']}}\n    return {1, 'c', 'b'}", "function": "f",
		"cases": [{"args": [1], "expected": [`+strings.Repeat("0, ", 4999)+`1]}, {"args": [2], "expected": {"a": {"b": ["`+strings.Repeat("x", 3000)+`z"]}}}, {"args": [3], "expected": 1}]}`)
	for i, want := range []string{"first difference: [4999]: got 0, expected 1", "first difference: ['a']['b'][0]: from character 3000 on, got …'xxxxxxxxxxxxxxxxxxxxy', expected", "returned {1, 'b', 'c'}, expected 1"} {
		if got := r.Feedback[i]; !strings.Contains(got, want) || !strings.Contains(r.Tests.Cases[i].Message, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

// TestFeedbackOfOutputsThatAreTooLong checks that an output beyond the limit is described by its beginning. The
// description does not claim that the output ends too early.
func TestFeedbackOfOutputsThatAreTooLong(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code": "import sys\nn = int(input())\nsys.stdout.write('1 2\\n' if n == 1 else ' ' * 2000000 if n == 2 else '')\nsys.stdout.write('3\\n' * 1000000)",
		"stdio": [{"stdin": "1", "stdout": "1 4"}, {"stdin": "2", "stdout": "3"}, {"stdin": "3", "stdout": "3\n3\n"}]}`)
	for i, want := range []string{`it wrote 2000004 bytes, expected 3; line 1 of the output is "1 2", expected "1 4" (from column 3 on)`, `it wrote 4000000 bytes, expected 1; line 1 of the output is "  `, `; line 3 of the output is "3", expected the end of the output`} {
		if got := r.Feedback[i]; !strings.Contains(got, want) || strings.Contains(got, "ends before") {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}
