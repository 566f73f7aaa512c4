package e2e

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// sessionImports: rules for imports hold in a session and its copies, for what is written
// down and for what is made up, and in functions that were defined before.
func sessionImports(t *testing.T, f *fleet) {
	for _, isolation := range []string{"cell", "task"} {
		id := f.session(t, job.SessionSpec{Policy: json.RawMessage(`{"isolation": "` + isolation + `", "imports": {"deny": ["*"], "allow": ["json", "importlib"]}}`)})
		if e := f.execute(t, id, job.PolicyViolation, code("x = 1\nimport os")); e.Message != "policy.imports: line 2: import of os" || !e.Alive {
			t.Errorf("%s: %q", isolation, e.Message)
		}
		f.execute(t, id, job.Exception, code("x")) // nothing of it ran
		f.execute(t, id, job.Succeeded, code("import json, importlib\ndef fetch(name): return importlib.import_module(name).__name__"))
		for _, text := range []string{"__import__('o' + 's')", "importlib.import_module('o' + 's')", "fetch('os')", "importlib.__import__('o' + 's')", "eval('__import__(\"o\" + \"s\")')"} {
			e := f.execute(t, id, job.Exception, code(text))
			if e.Exception.Message != "import of os is forbidden by policy.imports" || strings.Contains(e.Exception.Traceback, "assay") {
				t.Errorf("%s: %s: %+v", isolation, text, e.Exception)
			}
		}
		if e := f.execute(t, id, job.Succeeded, code("fetch('json.decoder')")); string(e.Value.JSON) != `"json.decoder"` {
			t.Errorf("%s: %+v", isolation, e.Value)
		}
		f.execute(t, id, job.Succeeded, api.ExecuteRequest{Command: "python3 -c 'import os'"}) // which docs/policy.md says
		s, err := f.api.Session(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range s.Enforcement {
			if row.Capability == "imports" && (row.Applied != "only json, importlib" || row.Level != job.LevelHarness) {
				t.Errorf("%s: %+v", isolation, row)
			}
		}
	}
	copied, err := f.api.ForkSession(t.Context(), f.session(t, job.SessionSpec{Policy: json.RawMessage(`{"imports": {"deny": ["os"]}}`)}))
	if err != nil {
		t.Fatal(err)
	}
	f.execute(t, copied.ID, job.PolicyViolation, code("import os"))
	s, err := f.api.CreateSession(t.Context(), job.SessionSpec{Kind: job.SessionShell, Policy: json.RawMessage(`{"imports": {"deny": ["*"]}}`)})
	if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "policy.imports: only the imports of python code are checked") {
		t.Errorf("a shell: %+v, %v", s, err)
	}
}
