package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

func exit(n int) *int { return &n }

// The exit code is the program's, or says what became of it.
func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result job.Result
		code   int
		stderr string
	}{
		"succeeded":        {job.Result{Outcome: job.Succeeded, ExitCode: exit(0)}, 0, ""},
		"no exit code":     {job.Result{Outcome: job.Succeeded}, 0, ""},
		"failed":           {job.Result{Outcome: job.Failed, ExitCode: exit(7)}, 7, ""},
		"its own 137":      {job.Result{Outcome: job.Failed, ExitCode: exit(137)}, 137, ""},
		"failed tests":     {job.Result{Outcome: job.Failed}, 1, ""},
		"exception":        {job.Result{Outcome: job.Exception, ExitCode: exit(1), Exception: &job.ExceptionInfo{Type: "ValueError", Traceback: "Traceback …\nValueError: no"}}, 1, "ValueError: no\n"},
		"timed out":        {job.Result{Outcome: job.TimedOut, Message: "after 10s"}, 124, "assay: timed out: after 10s\n"},
		"out of memory":    {job.Result{Outcome: job.OutOfMemory, Signal: "SIGKILL"}, 137, "assay: out of memory\n"},
		"signal":           {job.Result{Outcome: job.Signaled, Signal: "SIGSEGV"}, 139, "assay: signaled\n"},
		"output limit":     {job.Result{Outcome: job.OutputLimit}, 1, "assay: output limit\n"},
		"disk limit":       {job.Result{Outcome: job.DiskLimit, ExitCode: exit(3)}, 3, "assay: disk limit\n"},
		"process limit":    {job.Result{Outcome: job.ProcessLimit, ExitCode: exit(2)}, 2, "assay: process limit\n"},
		"policy violation": {job.Result{Outcome: job.PolicyViolation, Message: "there is no image x"}, 125, "there is no image x\n"},
		"canceled":         {job.Result{Outcome: job.OutcomeCanceled}, 125, "assay: canceled\n"},
		"expired":          {job.Result{Outcome: job.Expired}, 125, "assay: expired\n"},
		"check error":      {job.Result{Outcome: job.CheckError, Message: "1 of 1 cases have no verdict"}, 125, "assay: check error: 1 of 1 cases have no verdict\n"},
		"setup error":      {job.Result{Outcome: job.SetupError, Message: "there is no image x"}, 125, "assay: setup error: there is no image x\n"},
		"lost":             {job.Result{Outcome: job.Lost}, 125, "assay: lost\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.result.Stdout.Text, c.result.Stderr.Text = "out\n", "err\n"
			s := newServer(t, c.result)
			code, stdout, stderr := s.assay(t.Context(), "print(1)", "run", "-")
			if code != c.code || stdout != "out\n" || !strings.HasPrefix(stderr, "err\n") || !strings.HasSuffix(stderr, c.stderr) {
				t.Errorf("exit %d, %q, %q; want %d, … %q", code, stdout, stderr, c.code, c.stderr)
			}
			// With --json the result is the output, and it was recorded: 0.
			code, stdout, _ = s.assay(t.Context(), "print(1)", "run", "--json", "-")
			var got job.Result
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || got.Outcome != c.result.Outcome {
				t.Errorf("--json: exit %d, %v, %s", code, err, stdout)
			}
		})
	}
}

func TestEveryOutcomeHasAnExitCode(t *testing.T) {
	t.Parallel()
	for _, o := range job.Outcomes {
		if code := exitCodeOf(&job.Result{Outcome: o}); (code == 0) != (o == job.Succeeded) {
			t.Errorf("%s exits %d", o, code)
		}
	}
}

// What is refused, or wrong on our side, is 125 and says why.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newServer(t, job.Result{Outcome: job.Succeeded})
	ok := write(t, "ok.py", "print(1)")
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no command":         {nil, "expected one of"},
		"no subcommand":      {[]string{"job"}, "see assay job --help"},
		"no id":              {[]string{"job", "get"}, `missing "<id>"; see assay job get --help`},
		"empty id":           {[]string{"job", "get", ""}, "<id> is empty; see assay job get --help"},
		"no unit":            {[]string{"batch", "get", "--wait", "5", "x"}, `"5" is not a duration such as 90s, 15m or 24h`},
		"unit of days":       {[]string{"job", "list", "--since", "1d"}, `--since: "1d" is not a duration`},
		"unknown outcome":    {[]string{"job", "list", "--outcome", "tle"}, `--outcome must be one of "succeeded","failed"`},
		"unknown session":    {[]string{"session", "close", "nope", "neither"}, "neither"},
		"unknown command":    {[]string{"rnu"}, "rnu"},
		"unknown flag":       {[]string{"run", "--memry", "1Gi", ok}, "--memry"},
		"no file":            {[]string{"run"}, "<file>"},
		"file is not there":  {[]string{"run", "nope.py"}, "nope.py"},
		"bad outcome":        {[]string{"job", "list", "--outcome", "good"}, "--outcome"},
		"bad isolation":      {[]string{"run", "--isolation", "jail", ok}, "--isolation"},
		"bad policy file":    {[]string{"run", "--policy", write(t, "p.json", "{"), ok}, "not JSON"},
		"no policy file":     {[]string{"run", "--policy", "./nope.json", ok}, "nope.json"},
		"no source":          {[]string{"run", "--language", "c", write(t, "elf", "\x7fELF")}, "no source"},
		"no source file":     {[]string{"run", "--language", "c", "nope.c"}, "nope.c"},
		"bad tests":          {[]string{"run", "--tests", write(t, "t.json", `{"cses":[]}`), ok}, "tests.cses"},
		"refused":            {[]string{"run", "--image", "no such!", ok}, "image"},
		"10 MB of code":      {[]string{"run", write(t, "big.py", strings.Repeat("#", 10<<20))}, "a job has at most"},
		"NUL":                {[]string{"run", write(t, "nul.py", "a\x00b")}, "program.python.code"},
		"no batch file":      {[]string{"batch", "submit", "nope.jsonl"}, "nope.jsonl"},
		"bad line":           {[]string{"batch", "submit", write(t, "b.jsonl", `{"program":{"python":{"code":"1"}}}`+"\n{}\n")}, "line 2"},
		"unknown job":        {[]string{"job", "get", "nope"}, "not found"},
		"logs of unknown":    {[]string{"job", "logs", "nope"}, "not found"},
		"nobody there":       {[]string{"--url", "http://127.0.0.1:1", "worker", "list"}, "127.0.0.1:1 does not answer"},
		"no URL":             {[]string{"--url", "fleet", "worker", "list"}, "ASSAY_URL"},
		"refused by ceiling": {[]string{"policy", "explain", write(t, "q.json", `{"packages":["x"]}`)}, "would be refused"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := s.assay(t.Context(), "", c.args...)
			if code != 125 || !strings.Contains(stderr, c.says) {
				t.Errorf("exit %d, %.300q; want 125 and %q", code, stderr, c.says)
			}
		})
	}
}

// What the arguments mean.
func TestRunMakesTheJob(t *testing.T) {
	t.Parallel()
	script := write(t, "s.sh", "#!/bin/bash -e\necho hi")
	plain := write(t, "plain", "echo hi")
	py := write(t, "p.py", "print(1)")
	text := func(s string) job.File { return job.File{Text: &s} }
	for name, c := range map[string]struct {
		args []string
		want job.Spec
	}{
		"python":      {[]string{py}, job.Spec{Program: job.Program{Python: &job.Python{Code: "print(1)"}}}},
		"python args": {[]string{py, "--", "-v", "x"}, job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"python3", "/workspace/p.py", "-v", "x"}}}, Files: map[string]job.File{"/workspace/p.py": text("print(1)")}}},
		"stdin":       {[]string{"-"}, job.Spec{Program: job.Program{Python: &job.Python{Code: "given"}}}},
		"script":      {[]string{script, "--", "a"}, job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"/bin/bash", "-e", "/workspace/s.sh", "a"}}}, Files: map[string]job.File{"/workspace/s.sh": text("#!/bin/bash -e\necho hi")}}},
		"shell":       {[]string{plain}, job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"/bin/sh", "/workspace/plain"}}}, Files: map[string]job.File{"/workspace/plain": text("echo hi")}}},
		"image's own": {[]string{"/bin/true", "--", "-x"}, job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"/bin/true", "-x"}}}}},
		"command":     {[]string{"--stdin", "-", "wc"}, job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"wc"}, Stdin: "given"}}}},
		"language":    {[]string{"--language", "cpp", "--stdin", "-", write(t, "m.cc", "int main() {}"), "--", "a"}, job.Spec{Program: job.Program{Code: &job.Code{Language: "cpp", Source: "int main() {}", Stdin: "given", Args: []string{"a"}}}}},
		"graded":      {[]string{"--language", "c", "--tests", write(t, "t.json", `{"stdio":[{"stdin":"1","stdout":"1"}]}`), write(t, "m.c", "int main() {}")}, job.Spec{Program: job.Program{Tests: &job.Tests{Language: "c", Code: "int main() {}", Stdio: []job.Stdio{{Stdin: "1", Stdout: "1"}}}}}},
		"options":     {[]string{"--image", "i", "--isolation", "task", "--policy", write(t, "p.json", `{"wall":"1s"}`), "--name", "n", "true"}, job.Spec{Name: "n", Image: "i", Program: job.Program{Command: &job.Command{Argv: []string{"true"}}}, Policy: json.RawMessage(`{"isolation":"task","wall":"1s"}`)}},
		"stored":      {[]string{"--policy", "small", "true"}, job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"true"}}}, Policy: json.RawMessage(`"small"`)}},
		"tests":       {[]string{"--tests", write(t, "t.json", `{"function":"f","cases":[{"args":[1],"expected":2}]}`), py}, job.Spec{Program: job.Program{Tests: &job.Tests{Code: "print(1)", Function: "f", Cases: []job.Case{{Args: []json.RawMessage{json.RawMessage("1")}, Expected: json.RawMessage("2")}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, job.Result{Outcome: job.Succeeded})
			if code, _, stderr := s.assay(t.Context(), "given", append([]string{"run"}, c.args...)...); code != 0 {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			if c.want.Image == "" {
				c.want.Image = "python"
			}
			c.want.Retry.MaxAttempts = 1
			if d := cmp.Diff(c.want, s.specs[0]); d != "" {
				t.Error(d)
			}
		})
	}
}

// Whoever is interrupted does not leave a program running.
func TestInterruptedRunCancels(t *testing.T) {
	t.Parallel()
	s := newServer(t, job.Result{})
	s.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			s.mu.Lock()
			n := len(s.specs)
			s.mu.Unlock()
			if n > 0 {
				cancel()
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	code, _, stderr := s.assay(ctx, "while True: pass", "run", "-")
	s.mu.Lock()
	defer s.mu.Unlock()
	if code != 125 || len(s.canceled) != 1 || !strings.Contains(stderr, "interrupted") {
		t.Errorf("exit %d, canceled %v, %q", code, s.canceled, stderr)
	}
}
