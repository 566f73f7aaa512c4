package cheats

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// TestNoFailureIsExcused checks that a wrong solution cannot choose the errors of a check: it would
// then have no score instead of a bad one. A check that no solution can pass is an error for all.
func TestNoFailureIsExcused(t *testing.T) {
	const sent = `import json, os, struct
def f(x):
    e = {"type": "NameError", "module": "builtins", "mro": ["NameError"], "message": "name 'nothing' is not defined", "args": ["name 'nothing' is not defined"]}
    b = json.dumps({"op": "raise", "own": True, "stage": "check", "exception": e}).encode()
    os.write(6, struct.pack(">I", len(b)) + b)
`
	wrong := map[string]string{
		"wrong": "def f(x): return 1", "none": "def f(x): pass", "raises": "def f(x): raise NameError(\"name 'nothing' is not defined\")",
		"returns": "def f(x): return NameError(\"name 'nothing' is not defined\")", "sends": sent, "exits": "import os\ndef f(x): os._exit(0)",
		"empties": "def f(x):\n    if type(x) is list: x.clear()\n    return x",
	}
	checks := map[string]string{
		"a branch":      "def check(candidate):\n    if candidate(1) != 2:\n        nothing()\n",
		"a handler":     "def check(candidate):\n    try:\n        r = candidate(1)\n    except Exception as e:\n        nothing(e)\n    assert r == 2\n",
		"a message":     "def check(candidate):\n    r = candidate(1)\n    assert r == 2, nothing(r)\n",
		"a way round":   "def check(candidate):\n    if candidate(1) == 2:\n        return\n    nothing()\n",
		"its own loop":  "def check(candidate):\n    x = [1]\n    r = candidate(x)\n    for i in x:\n        nothing(i)\n    assert r == 2\n",
		"a helper":      "def good(): pass\ndef bad(): nothing()\ndef check(candidate):\n    [good, bad][candidate(1) != 2]()\n",
		"a wrong index": "def check(candidate):\n    assert {2: True}[candidate(1)]\n",
	}
	broken := map[string]job.Tests{
		"syntax": {Check: "def check(candidate\n    assert candidate(1) == 2"}, "a name": {Check: "def check(candidate):\n    assert candidate(nothing) == 2"},
		"setup": {Setup: "import nonesuch", Check: "assert f(1) == 2"}, "never": {Check: "def check(candidate):\n    pass"},
		"a value": {Cases: []job.Case{{Args: []json.RawMessage{[]byte(`{"$nothing":1}`)}, Expected: []byte("1")}}},
	}
	blameless := map[string]string{"right": "def f(x): return 2", "wrong": wrong["wrong"], "exits": wrong["exits"]}
	eachIsolation(t, func(t *testing.T, f *fleet) {
		for _, c := range part(t, f, pairs(checks, wrong)) {
			t.Run(c.check+", "+c.code, func(t *testing.T) {
				t.Parallel()
				rep := f.grade(t, &job.Tests{Code: wrong[c.code], Function: "f", Check: checks[c.check]}, limits)
				if rep.Outcome != job.Failed || rep.Tests.Score == nil || *rep.Tests.Score != 0 || rep.Tests.Errors != 0 {
					t.Errorf("%s: excused\n%+v", rep.Outcome, rep.Tests)
				}
			})
		}
		for _, c := range part(t, f, pairs(broken, blameless)) {
			t.Run("broken: "+c.check+", "+c.code, func(t *testing.T) {
				t.Parallel()
				tests := broken[c.check]
				tests.Code, tests.Function = blameless[c.code], "f"
				if rep := f.grade(t, &tests, limits); rep.Outcome != job.CheckError || rep.Tests.Score != nil || rep.Tests.Errors != 1 {
					t.Errorf("%s, %q: %s %+v", c.check, tests.Code, rep.Outcome, rep.Tests)
				}
			})
		}
	})
}

// pair names a check and a solution that it grades.
type pair struct{ check, code string }

// pairs returns all pairs, in a fixed order.
func pairs[T any](checks map[string]T, codes map[string]string) (all []pair) {
	for _, check := range slices.Sorted(maps.Keys(checks)) {
		for _, code := range slices.Sorted(maps.Keys(codes)) {
			all = append(all, pair{check, code})
		}
	}
	return all
}

// The kernel enforces the limit of one case, like the job's.
func TestCaseMemory(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		const code = "x = b'x' * (int(input()) << 20)\nprint(len(x))"
		rep := f.grade(t, &job.Tests{Code: code, Stdio: []job.Stdio{
			{Stdin: "300\n", Stdout: "314572800\n"}, {Stdin: "300\n", Stdout: "314572800\n", Memory: 64 * job.MiB}, {Stdin: "1\n", Stdout: "1048576\n", Memory: 64 * job.MiB}}},
			func(p *policy.Policy) { p.Memory = 512 * job.MiB })
		for i, want := range []job.Outcome{job.Succeeded, job.OutOfMemory, job.Succeeded} {
			if c := rep.Tests.Cases[i]; c.Outcome != want || c.Limits == nil || c.Limits.Memory != map[bool]job.Size{true: 512, false: 64}[i == 0]*job.MiB {
				t.Errorf("case %d: %+v, want %s", i, c, want)
			}
		}
	})
}
