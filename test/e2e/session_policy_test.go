package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// sessionImports checks that import rules hold in a session and its copies, for literal and
// computed names, and in functions that were defined before.
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
		f.execute(t, id, job.Succeeded, api.ExecuteRequest{Command: "python3 -c 'import os'"}) // as in docs/policy.md
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

// sessionArtifacts checks that the artifacts of the policy are exported on request and at any end,
// and can be read when the session is gone.
func sessionArtifacts(t *testing.T, f *fleet) {
	const kept = `"artifacts": {"paths": ["/workspace/out/**", "/tmp/*.log"], "max_bytes": "1Ki", "max_files": 3}`
	for _, level := range []string{"cell", "task", "gvisor"} {
		id := f.session(t, job.SessionSpec{Policy: json.RawMessage(`{"isolation": "` + level + `", ` + kept + `}`)})
		if e, err := f.api.ExportedArtifacts(t.Context(), id); err != nil || len(e.Artifacts) != 0 || e.ExportedAt != nil {
			t.Errorf("%s: before the first: %+v, %v", level, e, err)
		}
		f.execute(t, id, job.Succeeded, code(`import os
os.makedirs("out/deep")
kept_open = open("out/deep/a.json", "w")
print("[1]", file=kept_open, flush=True)
os.symlink("/etc/passwd", "out/link")
open("out/large", "w").write("x" * 2000)
open("out/b.txt", "w").write("first")`))
		e, err := f.api.ExportArtifacts(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		f.left(t, id, e, map[string]string{"/workspace/out/b.txt": "first", "/workspace/out/deep/a.json": "[1]\n"})
		said := strings.Join(e.Feedback, "\n")
		for _, want := range []string{`"/workspace/out/large": its 2000 bytes exceed the rest of the limit of 1024`, `"/workspace/out/link": a symbolic link is not followed`, `"/tmp/*.log": matched nothing`} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q does not say %q", level, said, want)
			}
		}
		if len(e.Artifacts) == 2 && (e.Artifacts[1].MediaType != "application/json" || e.Artifacts[1].URL != "/v1/sessions/"+string(id)+"/artifacts/workspace/out/deep/a.json" || e.Artifacts[1].Object != "") {
			t.Errorf("%s: %+v", level, e.Artifacts[1])
		}
		// The next export replaces it, and the end replaces the last one.
		f.execute(t, id, job.Succeeded, code("os.remove('out/b.txt')\nos.remove('out/large')\nopen('/tmp/x.log', 'w').write('log')\nkept_open.close()"))
		if e, err = f.api.ExportArtifacts(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		f.left(t, id, e, map[string]string{"/workspace/out/deep/a.json": "[1]\n", "/tmp/x.log": "log"})
		f.execute(t, id, job.Succeeded, api.ExecuteRequest{Command: "echo last > out/c; echo 1; rm /tmp/x.log"})
		if _, err := f.api.CloseSession(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if e, err = f.api.ExportedArtifacts(t.Context(), id); err != nil || e.ExportedAt == nil {
			t.Fatal(e, err)
		}
		f.left(t, id, e, map[string]string{"/workspace/out/deep/a.json": "[1]\n", "/workspace/out/c": "last\n"})
		if _, err := f.api.ExportedArtifact(t.Context(), id, "/workspace/out/b.txt"); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%s: a file of an export before: %v", level, err)
		}
		if _, err := f.api.ExportArtifacts(t.Context(), id); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("%s: of one that has ended: %v", level, err)
		}
	}
	f.endsThatExport(t, kept)
	none := f.session(t, job.SessionSpec{})
	if _, err := f.api.ExportArtifacts(t.Context(), none); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "policy.artifacts.paths: names no files to export") {
		t.Errorf("of a policy that names none: %v", err)
	}
}

// endsThatExport checks exports at unrequested ends, for both kinds of sessions and for a copy.
func (f *fleet) endsThatExport(t *testing.T, kept string) {
	const write = "mkdir -p /workspace/out; echo text > /workspace/out/f"
	text := map[string]string{"/workspace/out/f": "text\n"}
	spec := job.SessionSpec{Kind: job.SessionShell, Policy: json.RawMessage(`{` + kept + `}`)}
	spec.Lease = job.Duration(2 * time.Second)
	lease := f.session(t, spec)
	spec.Lease, spec.IdleTimeout = 0, job.Duration(2*time.Second)
	idle := f.session(t, spec)
	late := f.session(t, job.SessionSpec{Policy: json.RawMessage(`{"wall": "500ms", ` + kept + `}`)})
	full := f.session(t, job.SessionSpec{Policy: json.RawMessage(`{"memory": "64Mi", ` + kept + `}`)})
	for _, id := range []job.ID{lease, idle, late, full} {
		f.execute(t, id, job.Succeeded, api.ExecuteRequest{Command: write})
	}
	copied, err := f.api.ForkSession(t.Context(), late)
	if err != nil {
		t.Fatal(err)
	}
	f.execute(t, late, job.TimedOut, code("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"))
	f.execute(t, full, job.OutOfMemory, code("x = b'x' * (200 << 20)"))
	for id, want := range map[job.ID]job.Outcome{lease: job.Expired, idle: job.Expired, late: job.TimedOut, full: job.OutOfMemory} {
		f.ends(t, id, want, "")
		e, err := f.api.ExportedArtifacts(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		f.left(t, id, e, text)
	}
	f.execute(t, copied.ID, job.Succeeded, api.ExecuteRequest{Command: "echo more >> /workspace/out/f"})
	if _, err := f.api.CloseSession(t.Context(), copied.ID); err != nil {
		t.Fatal(err)
	}
	e, err := f.api.ExportedArtifacts(t.Context(), copied.ID)
	if err != nil {
		t.Fatal(err)
	}
	f.left(t, copied.ID, e, map[string]string{"/workspace/out/f": "text\nmore\n"})
}

// left checks that a session has exactly these artifacts.
func (f *fleet) left(t *testing.T, id job.ID, e *job.Export, want map[string]string) {
	t.Helper()
	var found []string
	for _, a := range e.Artifacts {
		found = append(found, a.Path)
		body, err := f.api.ExportedArtifact(t.Context(), id, a.Path)
		if err != nil {
			t.Errorf("%s: %v", a.Path, err)
			continue
		}
		data, err := io.ReadAll(body)
		sum := sha256.Sum256(data)
		if err = errors.Join(err, body.Close()); err != nil || string(data) != want[a.Path] || a.Bytes != int64(len(data)) || a.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%+v: %q, %v", a, data, err)
		}
	}
	if len(found) != len(want) {
		slices.Sort(found)
		t.Errorf("exported %q, want %v", found, want)
	}
}

// unfitFields checks that a field which a kind of program cannot have is refused by name. In report
// mode the program runs, and the report has that the field is not enforced.
func unfitFields(t *testing.T, f *fleet) {
	if err := f.api.PutSecret(t.Context(), "unfit", "s3cret"); err != nil {
		t.Fatal(err)
	}
	const callbacks, imports, secrets = `"callbacks": {"allow": ["ask"], "max_calls": 3}`, `"imports": {"deny": ["*"]}`, `"env": {"secrets": {"TOKEN": "unfit"}}`
	programs := map[string]job.Program{
		"python":  {Python: &job.Python{Code: "try: ask()\nexcept NameError as e: print(e)"}},
		"command": {Command: &job.Command{Argv: []string{"python3", "-c", "import os"}}},
		"steps":   {Command: &job.Command{Steps: []job.Step{{Name: "a", Argv: []string{"python3", "-c", "import os"}}}}},
		"tests":   {Tests: &job.Tests{Code: "def f(x): return x", Function: "f", Cases: []job.Case{{Args: []json.RawMessage{[]byte("1")}, Expected: []byte("1")}}}},
		"stdio":   {Tests: &job.Tests{Code: "print(1)", Stdio: []job.Stdio{{Stdout: "1\n"}}}},
	}
	none := func(what string, rows []job.Enforcement, capability, applied string) {
		t.Helper()
		for _, row := range rows {
			if row.Capability == capability && (row.Level != job.LevelNone || row.Applied != applied || !strings.HasPrefix(row.Mechanism, "not enforced: ")) {
				t.Errorf("%s: %+v", what, row)
			}
		}
	}
	for name, p := range programs {
		for capability, field := range map[string]string{"callbacks": callbacks, "imports": imports} {
			if capability == "imports" && p.Command == nil {
				continue
			}
			if _, err := f.api.Run(t.Context(), job.Spec{Program: p, Policy: json.RawMessage("{" + field + "}")}); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "policy."+capability+": only ") {
				t.Errorf("%s with %s: %v", name, capability, err)
			}
			r, err := f.api.Run(t.Context(), job.Spec{Program: p, Policy: json.RawMessage(`{"enforce": "report", ` + field + "}")})
			if err != nil || r.Outcome != job.Succeeded {
				t.Errorf("%s with %s, reported: %+v, %v", name, capability, r, err)
				continue
			}
			none(name, r.Enforcement, capability, map[string]string{"callbacks": "none", "imports": "unrestricted"}[capability])
		}
	}
	for kind, fields := range map[job.SessionKind]map[string]string{
		job.SessionPython: {"env.secrets": secrets}, job.SessionShell: {"env.secrets": secrets, "callbacks": callbacks, "imports": imports},
	} {
		for capability, field := range fields {
			if _, err := f.api.CreateSession(t.Context(), job.SessionSpec{Kind: kind, Policy: json.RawMessage("{" + field + "}")}); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "policy."+capability+": ") {
				t.Errorf("%s session with %s: %v", kind, capability, err)
			}
			s, err := f.api.CreateSession(t.Context(), job.SessionSpec{Kind: kind, Policy: json.RawMessage(`{"enforce": "report", ` + field + "}")})
			if err != nil {
				t.Errorf("%s session with %s, reported: %v", kind, capability, err)
				continue
			}
			none(string(kind)+" session", s.Enforcement, capability, map[string]string{"env.secrets": "none", "callbacks": "none", "imports": "unrestricted"}[capability])
			if e := f.execute(t, s.ID, job.Succeeded, api.ExecuteRequest{Command: "echo ${TOKEN-untold}"}); e.Stdout.Text != "untold\n" {
				t.Errorf("%s session is told %q", kind, e.Stdout.Text)
			}
		}
	}
}
