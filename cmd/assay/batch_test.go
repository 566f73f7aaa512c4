package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

const twoJobs = `{"program":{"python":{"code":"1"}}}` + "\n" + `{"program":{"python":{"code":"2"}}}` + "\n"

func TestBatchSubmit(t *testing.T) {
	t.Parallel()
	s := newServer(t, job.Result{})
	file := write(t, "b.jsonl", twoJobs)
	code, stdout, stderr := s.assay(t.Context(), "", "batch", "submit", "--wait", "--policy", write(t, "p.json", `{"wall": "1s"}`), "--image", "i", "--cache", file)
	if code != 0 || !strings.Contains(stdout, "2 of 2 done") || !strings.Contains(stdout, "1 succeeded, 1 timed out") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	if s.query != `{"cache":true,"image":"i","policy":{"wall":"1s"}}` || s.body != twoJobs {
		t.Errorf("sent defaults %q, body %q", s.query, s.body)
	}
	code, _, stderr = s.assay(t.Context(), "", "batch", "submit", "--callback", "https://example.org/x?a=b", "--callback-secret", "hook", file)
	if want := `{"url":"https://example.org/x?a=b","secret_ref":"hook"}`; code != 0 || s.callback != want {
		t.Errorf("exit %d, %q, sent callback %q", code, stderr, s.callback)
	}
	if code, _, stderr = s.assay(t.Context(), "", "batch", "submit", "--lease", "90s", file); code != 0 || s.lease != "1m30s" {
		t.Errorf("exit %d, %q, sent lease %q", code, stderr, s.lease)
	}
	if code, _, stderr = s.assay(t.Context(), "", "batch", "submit", "--callback-secret", "hook", file); code == 0 || !strings.Contains(stderr, "--callback ") {
		t.Errorf("a secret without a URL: exit %d, %q", code, stderr)
	}
	if strings.Contains(stderr, "\r") {
		t.Errorf("a bar where there is no terminal: %q", stderr)
	}
	for _, args := range [][]string{{"batch", "submit", "--json", "--wait", file}, {"batch", "submit", "--json", "-"}, {"batch", "get", "--json", string(someID)}} {
		code, stdout, _ = s.assay(t.Context(), twoJobs, args...)
		var b job.Batch
		if err := json.Unmarshal([]byte(stdout), &b); err != nil || code != 0 || b.ID != someID || b.Counts[job.Finished] != 2 {
			t.Errorf("%v: exit %d, %v, %q", args, code, err, stdout)
		}
	}
}

func TestBatchSubmitWithCaps(t *testing.T) {
	t.Parallel()
	s := newServer(t, job.Result{})
	if code, _, stderr := s.assay(t.Context(), twoJobs, "batch", "submit", "--label-cap", "problem=2", "-"); code != 0 || s.caps != `{"problem":2}` {
		t.Errorf("exit %d, sent %q, %q", code, s.caps, stderr)
	}
	if code, _, stderr := s.assay(t.Context(), twoJobs, "batch", "submit", "--label-cap", "problem=many", "-"); code == 0 || !strings.Contains(stderr, "--label-cap") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestBatchResults(t *testing.T) {
	t.Parallel()
	s := newServer(t, job.Result{})
	code, stdout, _ := s.assay(t.Context(), "", "batch", "results", "--json", string(someID))
	if code != 0 || stdout != `{"id":"a","outcome":"succeeded"}`+"\n"+`{"id":"b","outcome":"failed"}`+"\n" {
		t.Errorf("exit %d, %q", code, stdout)
	}
	code, stdout, _ = s.assay(t.Context(), "", "batch", "results", string(someID))
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); code != 0 || len(lines) != 2 || !strings.Contains(lines[1], "failed") {
		t.Errorf("exit %d, %q", code, stdout)
	}
}

// Fields that are asked for are those that the API is asked for, and its answer is what is printed.
func TestFields(t *testing.T) {
	t.Parallel()
	s := newServer(t, job.Result{})
	for want, args := range map[string][]string{
		`{"asked":"id,outcome"}`: {"batch", "results", "--fields", "id,outcome", string(someID)},
		`{"asked":"id,state"}`:   {"job", "get", "--fields", "id,state", string(someID)},
	} {
		if code, stdout, stderr := s.assay(t.Context(), "", args...); code != 0 || stdout != want+"\n" {
			t.Errorf("%q: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

func TestJobCommands(t *testing.T) {
	t.Parallel()
	s := newServer(t, job.Result{Outcome: job.Failed, Stdout: job.Output{Text: "o"}, Stderr: job.Output{Text: "e"}})
	if code, stdout, _ := s.assay(t.Context(), "", "job", "get", string(someID)); code != 0 || !strings.Contains(stdout, "finished on w1, failed") {
		t.Errorf("get: exit %d, %q", code, stdout)
	}
	if code, stdout, stderr := s.assay(t.Context(), "", "job", "logs", string(someID)); code != 0 || stdout != "o" || stderr != "e" {
		t.Errorf("logs: exit %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, _ := s.assay(t.Context(), "", "job", "cancel", string(someID)); code != 0 || !strings.Contains(stdout, "being stopped") {
		t.Errorf("cancel: exit %d, %q", code, stdout)
	}
	if code, stdout, stderr := s.assay(t.Context(), "", "job", "list", "--name", "tw*", "--worker", "w1", "--message", "m", "--min-duration", "1s", "--state", "finished", "--outcome", "failed", "--label", "run=7", "--since", "1h", "--limit", "1"); code != 0 ||
		!strings.HasPrefix(stdout, "job "+string(someID)+" (one): finished, failed on w1, submitted ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("list: exit %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, _ := s.assay(t.Context(), "", "job", "cancel", "--label", "run=7", "--label", "k=v"); code != 0 ||
		stdout != "3 jobs canceled, 2 being stopped\n" || s.body != `{"labels":{"k":"v","run":"7"}}` {
		t.Errorf("cancel by label: exit %d, %q, sent %s", code, stdout, s.body)
	}
	if code, _, _ := s.assay(t.Context(), "", "job", "cancel", "--state", "queued", "--dry-run"); code != 0 || s.body != `{"state":"queued","dry_run":true}` {
		t.Errorf("cancel by state: exit %d, sent %s", code, s.body)
	}
	for _, what := range []string{"job", "batch"} {
		if code, stdout, _ := s.assay(t.Context(), "", what, "delete", string(someID)); code != 0 || stdout != "erase "+what+" "+string(someID)+": done\n" {
			t.Errorf("delete a %s: exit %d, %q", what, code, stdout)
		}
	}
	if code, stdout, _ := s.assay(t.Context(), "", "job", "priority", "--label", "run=7", "5"); code != 0 || stdout != "3 jobs have priority 5 now\n" ||
		s.body != `{"labels":{"run":"7"},"priority":5}` {
		t.Errorf("exit %d: %s%s", code, stdout, s.body)
	}
	if code, stdout, _ := s.assay(t.Context(), "", "job", "priority", "--batch", string(someID), "--dry-run", "--", "-3"); code != 0 || stdout != "3 jobs would get priority -3\n" {
		t.Errorf("exit %d: %s", code, stdout)
	}
	for _, args := range [][]string{{"job", "priority", "5"}, {"job", "cancel"}, {"job", "cancel", "--dry-run"}, {"job", "cancel", string(someID), "--label", "run=7"}} {
		if code, _, stderr := s.assay(t.Context(), "", args...); code == 0 || !strings.Contains(stderr, "--label") {
			t.Errorf("%v: exit %d, %q", args, code, stderr)
		}
	}
	if code, stdout, _ := s.assay(t.Context(), "", "worker", "list"); code != 0 || !strings.Contains(stdout, "w1") || !strings.Contains(stdout, " 18.8Gi ") || !strings.Contains(stdout, "gpu=a100,only cuda") || !strings.Contains(stdout, " 3.0Gi/8.0Gi  - ") {
		t.Errorf("workers: exit %d, %q", code, stdout)
	}
	if code, stdout, _ := s.assay(t.Context(), "", "policy", "explain", write(t, "p.json", "{}")); code != 0 || !strings.Contains(stdout, "cgroup memory") {
		t.Errorf("explain: exit %d, %q", code, stdout)
	}
	for _, args := range [][]string{{"job", "get", string(someID)}, {"job", "list", "--limit", "1"}, {"job", "logs", string(someID)}, {"job", "cancel", string(someID)}, {"job", "cancel", "--label", "a=b"}, {"worker", "list"},
		{"policy", "explain", write(t, "p.json", "{}")}, {"version"}, {"job", "artifacts", string(someID)}} {
		code, stdout, stderr := s.assay(t.Context(), "", append([]string{"--json"}, args...)...)
		if code != 0 || !json.Valid([]byte(stdout)) {
			t.Errorf("%v --json: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// What is kept beside the result is printed as if it were in it.
func TestStoredOutputsArePrintedWhole(t *testing.T) {
	t.Parallel()
	head := func(text string) job.Output { return job.Output{Text: text, Stored: &job.StoredOutput{Bytes: 1}} }
	s := newServer(t, job.Result{ID: someID, Outcome: job.Succeeded, Stdout: head("he"), Stderr: job.Output{Text: "warned\n"},
		Steps: []job.StepResult{{Stdout: job.Output{Text: "first\n"}}, {Stdout: head("se"), Stderr: head("se")}}})
	s.files["stdout"], s.files["stdout1"], s.files["stderr1"] = "hello, whole\n", "second, whole\n", "second's errors\n"
	if code, out, errs := s.assay(t.Context(), "", "job", "logs", string(someID)); code != 0 ||
		out != "hello, whole\nfirst\nsecond, whole\n" || errs != "warned\nsecond's errors\n" {
		t.Errorf("logs: exit %d, %q, %q", code, out, errs)
	}
	if code, out, errs := s.assay(t.Context(), "print(1)", "run", "-"); code != 0 || out != "hello, whole\n" || errs != "warned\n" {
		t.Errorf("run: exit %d, %q, %q", code, out, errs)
	}
}

// Paths of artifacts are a job's to choose; where they land is not.
func TestArtifactsStayInside(t *testing.T) {
	t.Parallel()
	s := newServer(t, job.Result{})
	add := func(path, text string) {
		sum := sha256.Sum256([]byte(text))
		s.files[path] = text
		s.result.Artifacts = append(s.result.Artifacts, job.Artifact{Path: path, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])})
	}
	add("/workspace/a/b.txt", "fine")
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if code, _, stderr := s.assay(t.Context(), "", "job", "artifacts", string(someID), "--out", out); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if got, err := os.ReadFile(filepath.Join(out, "workspace/a/b.txt")); string(got) != "fine" {
		t.Errorf("got %q, %v", got, err)
	}

	// A link that is in the way is not written through.
	secret := filepath.Join(dir, "secret")
	if err := os.MkdirAll(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{filepath.Join(out, "linked"), filepath.Join(out, "workspace/a/file")} {
		if err := os.Symlink(secret, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, evil := range []string{"/../../escaped", "/linked/escaped", "/workspace/../../../escaped"} {
		s.result.Artifacts = nil
		add(evil, "evil")
		code, _, stderr := s.assay(t.Context(), "", "job", "artifacts", string(someID), "--out", out)
		t.Logf("%s: exit %d %s", evil, code, strings.TrimSpace(stderr))
	}
	for _, p := range []string{filepath.Join(dir, "escaped"), filepath.Join(secret, "escaped"), filepath.Join(filepath.Dir(dir), "escaped")} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s was written", p)
		}
	}
	// A damaged file is an error.
	s.result.Artifacts = nil
	add("/x", "right")
	s.files["/x"] = "wrong"
	if code, _, stderr := s.assay(t.Context(), "", "job", "artifacts", string(someID), "--out", out); code != 125 || !strings.Contains(stderr, "sha256") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"batch", "submit", "--help"}, strings.NewReader(""), &out, &errs); code != 0 || !strings.Contains(out.String(), "--wait") {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
}

// TestListsOfTenants checks that operators list all tenants, and other callers their own.
func TestListsOfTenants(t *testing.T) {
	t.Parallel()
	for _, operator := range []bool{true, false} {
		s := newServer(t, job.Result{})
		s.operator = operator
		for _, list := range []string{"job", "batch"} {
			code, stdout, stderr := s.assay(t.Context(), "", list, "list", "--limit", "1")
			if all := strings.Contains(stdout, " of *: "); code != 0 || stdout == "" || all != operator {
				t.Errorf("%s list, operator %v: exit %d, %q, %q", list, operator, code, stdout, stderr)
			}
			code, stdout, stderr = s.assay(t.Context(), "", list, "list", "--limit", "1", "--tenant", "blue")
			if operator && !strings.Contains(stdout, " of blue: ") || !operator && (code != 125 || !strings.Contains(stderr, "operators")) {
				t.Errorf("%s list --tenant blue, operator %v: exit %d, %q, %q", list, operator, code, stdout, stderr)
			}
		}
	}
}
