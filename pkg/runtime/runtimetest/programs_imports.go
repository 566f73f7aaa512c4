package runtimetest

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// imports returns snippets under import rules.
func imports() []program {
	deny := func(names ...string) func(*policy.Policy) {
		return func(p *policy.Policy) { p.Imports.Deny = names }
	}
	allow := func(names ...string) func(*policy.Policy) {
		return func(p *policy.Policy) { p.Imports.Allow = names }
	}
	violates := func(what string) func(*testing.T, *ran) {
		return func(t *testing.T, r *ran) {
			t.Helper()
			stdoutIs("")(t, r) // nothing ran
			if !strings.Contains(r.Message, what) {
				t.Errorf("message %q lacks %q", r.Message, what)
			}
		}
	}
	const code = "print(1)\nimport os\nprint(os.sep)"
	const hidden = "name = 'o' + 's'\ntry: __import__(name); print('imported')\nexcept ImportError as e: print(e)"
	const computed = "import importlib\nname = 'o' + 's'\ntry: importlib.import_module(name); print('imported')\nexcept ImportError as e: print(e)"
	return []program{
		{name: "imports", outcome: job.Succeeded, run: py(code), check: stdoutIs("1\n/\n")},
		{name: "denied import", outcome: job.PolicyViolation, code: 1, run: py(code), edit: deny("os"),
			check: with(violates("line 2: import of os"), rowIs("imports", "allow none; deny os", job.LevelHarness))},
		{name: "denied submodule", outcome: job.PolicyViolation, code: 1, run: py("def f():\n  from os import path\n"), edit: deny("os.path"), check: violates("line 2: import of os.path")},
		{name: "denied import by name", outcome: job.PolicyViolation, code: 1, run: py("import importlib\nimportlib.import_module('os.path')"), edit: deny("os"), check: violates("os.path")},
		{name: "denied import that cannot be seen", outcome: job.Succeeded, run: py(hidden), edit: deny("os"), check: stdoutIs("import of os is forbidden by policy.imports\n")},
		{name: "denied import of a computed name", outcome: job.Succeeded, run: py(computed), edit: deny("os"), check: stdoutIs("import of os is forbidden by policy.imports\n")},
		{name: "import that cannot be seen", outcome: job.Succeeded, run: py(hidden), check: stdoutIs("imported\n")},
		{name: "allowed imports", outcome: job.Succeeded, edit: allow("json", "collections", "numpy"), check: stdoutIs("[1] 2\n"),
			run: py("import json, numpy\nfrom collections import abc\nprint(json.dumps([1]), numpy.int64(2))")},
		{name: "import that is not allowed", outcome: job.PolicyViolation, code: 1, run: py(code), edit: allow("json"), check: violates("line 2: import of os")},
		{name: "no imports", outcome: job.PolicyViolation, code: 1, run: py(code), edit: deny("*"),
			check: with(violates("line 2: import of os"), rowIs("imports", "none", job.LevelHarness))},
		{name: "no imports but some", outcome: job.Succeeded, edit: func(p *policy.Policy) { p.Imports = policy.Imports{Allow: []string{"time"}, Deny: []string{"*"}} },
			run: py("import time\nprint(time.strptime('2020', '%Y').tm_year)\ntry: __import__('o' + 's')\nexcept ImportError as e: print(e)"), check: stdoutIs("2020\nimport of os is forbidden by policy.imports\n")},
	}
}
