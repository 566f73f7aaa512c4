package grade

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// TestImportsOfASolution checks that import rules apply to the solution, however it is graded and however it imports.
// They do not apply to the setup and the check.
func TestImportsOfASolution(t *testing.T) {
	t.Parallel()
	const (
		seen    = "import math\nfrom os import path\ndef f(x): return x\n"
		inside  = "def f(x):\n    import os\n    return x\n"
		hidden  = "def f(x):\n    return __import__('o' + 's') and x\n"
		dynamic = "import importlib\nfetch = importlib.import_module\ndef f(x):\n    return fetch('o' + 's') and x\n"
		fine    = "import json, time\ndef f(x):\n    return time.strptime('2020', '%Y') and json.loads(str(x))\n"
		setup   = "import os\ndef lent():\n    import glob, importlib\n    return importlib.import_module('o' + 's').sep\n"
		uses    = "def f(x):\n    return lent() == os.sep and x\n"
	)
	none := policy.Imports{Deny: []string{"*"}}
	no := policy.Imports{Deny: []string{"os"}}
	some := policy.Imports{Deny: []string{"*"}, Allow: []string{"json", "time"}}
	for _, c := range []struct {
		name, code, setup string
		rules             policy.Imports
		says              string // of each case; "": all pass
		outcome           job.Outcome
	}{
		{"one that is seen", seen, "", no, "policy.imports: line 2: import of os", job.PolicyViolation},
		{"the first of several", seen, "", none, "policy.imports: line 1: import of math", job.PolicyViolation},
		{"one in a function", inside, "", none, "policy.imports: line 2: import of os", job.PolicyViolation},
		{"one that is made up", hidden, "", no, "import of os is forbidden by policy.imports", job.Exception},
		{"one by importlib", dynamic, "", no, "import of os is forbidden by policy.imports", job.Exception},
		{"those that are allowed", fine, "", some, "", job.Succeeded},
		{"without rules", seen, "", policy.Imports{}, "", job.Succeeded},
		{"those of the setup", uses, setup, none, "", job.Succeeded},
		{"those of the setup, and its own", seen, setup, none, "import of math", job.PolicyViolation},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := runTests(t, &job.Tests{
				Code: c.code, Setup: c.setup, Function: "f",
				Cases: []job.Case{{Args: []json.RawMessage{[]byte("7")}, Expected: []byte("7")}},
				Check: "import os, subprocess\nassert candidate(3) == 3 and os.sep",
			}, func(p *policy.Policy) { p.Imports = c.rules })
			imported(t, r.Tests.Cases, c.says, c.outcome)
			r = runTests(t, &job.Tests{
				Code: c.code + "print(f(int(input())))\n", Setup: c.setup, Stdio: []job.Stdio{{Stdin: "7", Stdout: "7\n"}},
			}, func(p *policy.Policy) { p.Imports = c.rules })
			if c.outcome != job.Succeeded { // a script's only report is its exit code
				c.outcome = job.Failed
			}
			imported(t, r.Tests.Cases, c.says, c.outcome)
		})
	}
}

func imported(t *testing.T, cases []job.CaseResult, says string, outcome job.Outcome) {
	t.Helper()
	for _, got := range cases {
		if got.Passed != (says == "") || !strings.Contains(got.Message, says) || got.Outcome != outcome && !strings.HasPrefix(got.Name, "check") {
			t.Errorf("%s: %s %q, want %s %q", got.Name, got.Outcome, got.Message, outcome, says)
		}
	}
}

// TestScriptsUnderRules checks that a script under import rules has its usual name, arguments, exit code and last
// output.
func TestScriptsUnderRules(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]job.Stdio{
		"import sys\nprint(__name__, __file__[-11:], len(sys.argv), sorted(n for n in globals() if n[0] != '_'))": {Stdout: "__main__ solution.py 1 ['sys']\n"},
		"import __main__, sys\nx = 1\nprint(__main__.x, sys.path[0] == __file__.rpartition('/')[0])":              {Stdout: "1 True\n"},
		"import atexit\natexit.register(print, 'bye')":                                                            {Stdout: "bye\n"},
	} {
		want.Stdin = "5\n"
		r := runTests(t, &job.Tests{Code: code, Stdio: []job.Stdio{want}}, func(p *policy.Policy) { p.Imports.Deny = []string{"os"} })
		if c := r.Tests.Cases[0]; !c.Passed && !strings.Contains(c.Got, strings.TrimSpace(want.Stdout)) {
			t.Errorf("%q: %+v", code, c)
		}
	}
	for code, says := range map[string]string{"import sys\nsys.exit(4)": "exit code 4", "1 / 0": "exit code 1: ZeroDivisionError: division by zero", "x = (": "SyntaxError"} {
		r := runTests(t, &job.Tests{Code: code, Stdio: []job.Stdio{{}}}, func(p *policy.Policy) { p.Imports.Deny = []string{"os"} })
		if c := r.Tests.Cases[0]; c.Passed || !strings.Contains(c.Message, says) {
			t.Errorf("%q: %+v", code, c)
		}
	}
}
