package grade

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// TestWhoseErrorItIs checks that a failure that no solution could avoid is the check's error, and that no other
// failure is.
func TestWhoseErrorItIs(t *testing.T) {
	t.Parallel()
	const ok, humanEval = "def f(x): return x", `
def check(candidate):
    import math, random, copy
    rng = random.Random(42)
    for _ in range(100):
        coeffs = []
        for _ in range(2 * rng.randint(1, 4)):
            coeff = rng.randint(-10, 10)
            if coeff == 0:
                coeff = 1
            coeffs.append(coeff)
        solution = candidate(copy.deepcopy(coeffs))
        assert math.fabs(poly(coeffs, solution)) < 1e-4
`
	for name, c := range map[string]struct {
		setup, code, check string
		want               job.Outcome // of each case
	}{
		// Before the first call of the solution.
		"a syntax error":          {"", ok, "def check(candidate)\n    assert candidate(1) == 1", job.CheckError},
		"a name, first":           {"", ok, "def check(candidate):\n    x = encode(1)\n    assert candidate(x) == 1", job.CheckError},
		"a module":                {"", ok, "import nonesuch\nassert f(1) == 1", job.CheckError},
		"a file":                  {"", ok, "expected = open('/no/such/file').read()\nassert f(1) == expected", job.CheckError},
		"an assertion":            {"", ok, "assert 1 == 2\nassert f(1) == 1", job.CheckError},
		"an argument":             {"", ok, "assert f(object()) == 1", job.CheckError},
		"an exit":                 {"", ok, "import sys\nsys.exit(3)\nassert f(1) == 1", job.CheckError},
		"nothing asked":           {"", ok, "def check(candidate):\n    pass", job.CheckError},
		"no test":                 {"", ok, "def helper():\n    pass", job.CheckError},
		"every test skipped":      {"", ok, "import unittest\n@unittest.skip('later')\nclass T(unittest.TestCase):\n    def test(self):\n        assert f(1) == 1", job.CheckError},
		"the setup":               {"import nonesuch", ok, "assert f(1) == 1", job.CheckError},
		"the setup's syntax":      {"def g(:", ok, "assert f(1) == 1", job.CheckError},
		"a setup that exits":      {"import os\nos._exit(0)", ok, "assert f(1) == 1", job.CheckError},
		"a setup and no solution": {"1/0", "def f(x) return", "assert f(1) == 1", job.CheckError},

		// An undefined name in code that every run reaches.
		"HumanEval/32":           {"", ok, humanEval, job.CheckError},
		"HumanEval/32, setup":    {"def poly(*a): return 0", ok, humanEval, job.Succeeded},
		"HumanEval/32, raises":   {"", "def f(x): raise NameError(\"name 'poly' is not defined\")", humanEval, job.Exception},
		"after the solution":     {"", ok, "r = f(1)\nassert r == nothing", job.CheckError},
		"in a helper":            {"", ok, "def same(a, b):\n    return nothing(a, b)\ndef check(candidate):\n    assert same(candidate(1), 1)", job.CheckError},
		"in a helper of setup":   {"def same(a, b):\n    return nothing(a, b)", ok, "def check(candidate):\n    assert same(candidate(1), 1)", job.CheckError},
		"in a test method":       {"", ok, "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        r = f(1)\n        self.assertEqual(r, nothing)", job.CheckError},
		"a check that is called": {"", ok, "def verify(g):\n    r = g(1)\n    assert nothing == r\nverify(f)", job.CheckError},
		"in a loop over a list":  {"", ok, "for x in [1, 2]:\n    r = f(x)\n    assert r == nothing", job.CheckError},

		// A wrong solution could cause these, or a right one avoid them, so they are normal failures.
		"a branch for failures":   {"", ok, "def check(candidate):\n    if candidate(1) != 2:\n        report('wrong')", job.Failed},
		"a message for failures":  {"", ok, "r = f(1)\nassert r == 2, describe(r)", job.Failed},
		"after or":                {"", ok, "assert f(1) == 2 or nothing", job.Failed},
		"after and":               {"", ok, "assert f(1) == 1 and nothing", job.Failed},
		"a conditional":           {"", ok, "assert nothing if f(1) == 1 else True", job.Failed},
		"a chain":                 {"", ok, "assert 0 < f(1) < nothing", job.Failed},
		"a comprehension":         {"", ok, "assert [nothing for _ in f([1])] == []", job.Failed},
		"a lambda":                {"", ok, "r = f(1)\ng = lambda: nothing\ng()", job.Failed},
		"a loop over its answer":  {"", ok, "for x in f([1]):\n    assert x == nothing", job.Failed},
		"a loop that may end":     {"", ok, "for x in range(3):\n    if f(x) == 2:\n        break\n    nothing(x)", job.Failed},
		"a return before":         {"", ok, "def check(candidate):\n    if candidate(1) == 2:\n        return\n    nothing()", job.Failed},
		"an exit before":          {"", ok, "import sys\nif f(1) == 2: sys.exit(0)\nr = nothing", job.Failed},
		"bound somewhere":         {"", ok, "if f(1) == 2:\n    g = 1\nassert g", job.Failed},
		"bound by a handler":      {"", ok, "try:\n    f(1)\nexcept ValueError as g:\n    pass\nassert g.args", job.Failed},
		"bound by the setup":      {"def later():\n    global g\n    g = 1", ok, "if f(1) == 2: later()\nassert g", job.Failed},
		"bound by exec":           {"", ok, "if f(1) == 2: exec('g = 1')\nassert g", job.Failed},
		"in a try":                {"", ok, "try:\n    r = f(1)\n    assert r == nothing\nfinally:\n    pass", job.Failed},
		"a helper by its answer":  {"", ok, "def a(): pass\ndef b(): return nothing\n[b, a][f(0)]()", job.Failed},
		"a helper for map":        {"", ok, "def same(x): return nothing\nassert list(map(same, f([1]))) == []", job.Failed},
		"a helper that is put on": {"", ok, "def a(): pass\ndef b(): return nothing\ng = b if f(1) == 1 else a\ng()", job.Failed},
		"a helper defined twice":  {"", ok, "def a(): return nothing\nif f(1) == 2:\n    def a(): pass\na()", job.Failed},
		"a helper with a return":  {"", ok, "def same(a):\n    if a == 2: return True\n    return nothing\nassert same(f(1))", job.Failed},
		"a callback":              {"", "def f(g):\n    g()\n    return 1", "assert f(lambda: nothing) == 1", job.Exception},
		"an error that it sends":  {"", "def f(x): return NameError(\"name 'nothing' is not defined\")", "r = f(1)\nraise r", job.Failed},
		"one it sends, used":      {"", "def f(x): return NameError(\"name 'nothing' is not defined\")", "r = f(1)\nif r == 2: nothing\nraise r.with_traceback(None)", job.Failed},
		"its own error":           {"", "def f(x): return nothing", "r = f(1)\nassert r == nothing", job.Exception},
		"its own syntax":          {"", "def f(x) return", "assert f(1) == 1", job.Exception},
		"its own import":          {"", "import nonesuch\ndef f(x): return x", "assert f(1) == 1", job.Exception},
		"a wrong attribute":       {"", ok, "assert f(1).nothing == 1", job.Failed},
		"a test after another":    {"", ok, "done = []\nr = f(1)\ndone.append(r)\n[1][done[0]]", job.Failed},
		"another test's leavings": {"", ok, "kept = []\ndef test_a():\n    kept.append(f(1))\ndef test_b():\n    assert kept[0] == 2", job.Failed},
		"an attribute":            {"", ok, "def check(candidate):\n    assert candidate.nothing", job.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Sample(t)
			r := runTests(t, &job.Tests{Setup: c.setup, Code: c.code, Function: "f", Check: c.check})
			last := r.Tests.Cases[len(r.Tests.Cases)-1]
			if last.Outcome != c.want || c.want != job.Succeeded && last.Message == "" {
				t.Errorf("%s (%s), want %s\n%s", last.Outcome, last.Message, c.want, r.Stderr.Text)
			}
			if none := r.Tests.Score == nil; none != (c.want == job.CheckError) || (r.Outcome == job.CheckError) != none {
				t.Errorf("outcome %s, score %v", r.Outcome, r.Tests.Score)
			}
		})
	}
}

// TestValuesOfCases checks that a case that Python cannot decode is an error of the tests for every solution. Values
// at which only Python's own limits fail are valid.
func TestValuesOfCases(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("7", 6000)
	for name, c := range map[string]struct {
		c    string
		want job.Outcome
	}{
		"no such tag":          {`{"args":[{"$nothing":1}],"expected":1}`, job.CheckError},
		"in a keyword":         {`{"kwargs":{"x":{"$bytes":"?"}},"expected":1}`, job.CheckError},
		"expected":             {`{"args":[1],"expected":{"$tuple":1}}`, job.CheckError},
		"a set of lists":       {`{"args":[{"$set":[[1]]}],"expected":1}`, job.CheckError},
		"a key that is a dict": {`{"args":[[{"$dict":[[{"$tuple":[{}]},1]]}]],"expected":1}`, job.CheckError},
		"a set expected":       {`{"args":[1],"expected":[[1]],"expected_type":"set"}`, job.CheckError},
		"a set of tuples":      {`{"args":[{"$set":[{"$tuple":[1,"a"]}]}],"expected":{"$set":[{"$tuple":[1,"a"]}]}}`, job.Succeeded},
		"a long int":           {`{"args":[` + long + `],"expected":` + long + `}`, job.Succeeded},
		"a long one, tagged":   {`{"args":[{"$int":"-` + long + `"}],"expected":-` + long + `}`, job.Succeeded},
		"long ones inside":     {`{"args":[{"a":[1,-` + long + `,"` + long + `"]}],"expected":{"a":[1,-` + long + `,"` + long + `"]}}`, job.Succeeded},
		"a long float":         {`{"args":[1.` + long + `],"expected":1.` + long + `}`, job.Succeeded},
		"deeper than we read":  {`{"args":[` + strings.Repeat("[", 180) + `{"$tuple":[]}` + strings.Repeat("]", 180) + `],"expected_type":"list"}`, job.Succeeded},
		"and wrong":            {`{"args":[` + long + `],"expected":1}`, job.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Sample(t)
			for _, code := range []string{"def f(x): return x", "def f(x): raise ValueError", "def f(x) return"} {
				spec := &job.Tests{Code: code, Function: "f", Cases: make([]job.Case, 1)}
				if err := json.Unmarshal([]byte(c.c), &spec.Cases[0]); err != nil {
					t.Fatal(err)
				}
				r := runTests(t, spec)
				want := c.want
				if want != job.CheckError && code != "def f(x): return x" {
					want = job.Exception
				}
				if got := r.Tests.Cases[0]; got.Outcome != want || got.Outcome != job.Succeeded && got.Message == "" {
					t.Errorf("%s: %s %.200s, want %s", code, got.Outcome, got.Message, want)
				}
			}
		})
	}
}

// TestErrorsLeaveNoScore checks that errors of the tests leave no score, regardless of the other results.
func TestErrorsLeaveNoScore(t *testing.T) {
	t.Parallel()
	r := run(t, `{"code":"def f(x): return x","function":"f","cases":[{"args":[1],"expected":1},{"args":[1],"expected":2},{"args":[1],"expected":{"$no":1}}]}`)
	if g := r.Tests; g.Passed != 1 || g.Failed != 1 || g.Errors != 1 || g.Total != 3 || g.Score != nil || r.Outcome != job.CheckError || r.State != job.Finished {
		t.Errorf("%s %+v", r.Outcome, g)
	}
	raw, err := json.Marshal(r.Tests)
	if err != nil || !strings.Contains(string(raw), `"score":null`) {
		t.Errorf("%s, %v", raw, err)
	}
}

// bare is an image without Python.
type bare struct{}

func (bare) Close() {}

func (bare) Run(context.Context, runtime.Attempt) (*runtime.Report, error) {
	return unbegun{}.Wait()
}

func (bare) Start(context.Context, runtime.Attempt) (runtime.Process, error) { return unbegun{}, nil }

// unbegun is a program without an interpreter. The runtime detects that after the start: the program has a stream,
// which is at its end.
type unbegun struct{}

func (unbegun) Conn() net.Conn {
	ours, theirs := net.Pipe()
	_ = theirs.Close()
	return ours
}

func (unbegun) Stop() {}

func (unbegun) Wait() (*runtime.Report, error) {
	code := 127
	return &runtime.Report{Result: job.Result{Outcome: job.Failed, ExitCode: &code, Message: "cannot run python3: no such program"}, Unbegun: true}, nil
}

func TestImagesWithoutPython(t *testing.T) {
	for name, tests := range map[string]*job.Tests{
		"cases": {Code: "x", Function: "f", Cases: make([]job.Case, 1)}, "check": {Code: "x", Setup: "y", Function: "f", Check: "f(1)"},
	} {
		rep, err := Run(t.Context(), Config{Tests: tests, Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: policy.Default()}},
			Acquire: func(context.Context, string, string) (runtime.Slot, error) { return bare{}, nil }})
		if err != nil || rep.Outcome != job.SetupError || rep.Tests != nil || !strings.Contains(rep.Message, "no such program") {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
	}
}

// unfit is a slot whose disk does not hold the inputs, so no program of the job runs.
type unfit struct{ bare }

func (unfit) Start(context.Context, runtime.Attempt) (runtime.Process, error) {
	return unfitted{}, nil
}

func (unfit) Run(context.Context, runtime.Attempt) (*runtime.Report, error) { return unfitted{}.Wait() }

type unfitted struct{ unbegun }

func (unfitted) Wait() (*runtime.Report, error) {
	return &runtime.Report{Result: job.Result{Outcome: job.SetupError, Message: "policy.disk: no room"}}, nil
}

// TestInputsThatDoNotFit checks that a solution that could not run has no score.
func TestInputsThatDoNotFit(t *testing.T) {
	for name, tests := range map[string]*job.Tests{
		"cases": {Code: "x", Function: "f", Cases: make([]job.Case, 1)}, "check": {Code: "x", Function: "f", Check: "f(1)"},
		"stdio": {Code: "x", Stdio: make([]job.Stdio, 2)},
	} {
		rep, err := Run(t.Context(), Config{Tests: tests, Attempt: runtime.Attempt{Plan: &policy.Plan{Policy: policy.Default()}},
			Acquire: func(context.Context, string, string) (runtime.Slot, error) { return unfit{}, nil }})
		if err != nil || rep.Outcome != job.SetupError || rep.Tests != nil || rep.Message != "policy.disk: no room" {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
	}
}
