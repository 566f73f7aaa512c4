package conformance

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// observed is the record of a program of any kind.
type observed struct {
	outcome        job.Outcome // of the program; of a graded solution, of its first failed case
	message        string
	stdout, stderr job.Output
	usage          job.Usage
	network        *job.Network
	artifacts      []job.Artifact
	rows           []job.Enforcement
	raw            any // the whole record, to show
}

// program is a kind of program that runs python code, which defines act, and calls act.
type program struct {
	name string
	use  policy.Use
	// run runs it under a policy. The error is the API's.
	run func(t *testing.T, f *fleet, act string, policy json.RawMessage) (*observed, error)
	// without has the reason why it has no meaning at a level; nil: none.
	without map[string]string
}

var programs = []program{
	{name: "python", use: policy.UsePython, run: aJob(func(act string) job.Program {
		return job.Program{Python: &job.Python{Code: act + "\nact()"}}
	})},
	{name: "command", use: policy.UseCommand, run: aJob(func(act string) job.Program {
		return job.Program{Command: &job.Command{Argv: []string{"python3", "-c", act + "\nact()"}}}
	})},
	{name: "shell", use: policy.UseCommand, run: aJob(func(act string) job.Program {
		return job.Program{Command: &job.Command{Argv: []string{"bash", "-c", script(act)}}}
	})},
	{name: "stdin", use: policy.UseCommand, run: aJob(func(act string) job.Program {
		return job.Program{Command: &job.Command{Argv: []string{"python3", "-"}, Stdin: act + "\nact()"}}
	})},
	{name: "steps", use: policy.UseCommand, run: aJob(func(act string) job.Program {
		return job.Program{Command: &job.Command{Steps: []job.Step{
			{Name: "first", Argv: []string{"true"}}, {Name: "second", Argv: []string{"python3", "-c", act + "\nact()"}},
		}}}
	})},
	{name: "tests cases", use: policy.UseTests, run: aJob(func(act string) job.Program {
		return job.Program{Tests: &job.Tests{Code: act + "\ndef f(x):\n    act()\n    return x\n", Function: "f",
			Cases: []job.Case{{Args: []json.RawMessage{[]byte("1")}, Expected: []byte("1")}}}}
	})},
	{name: "tests check", use: policy.UseTests, run: aJob(func(act string) job.Program {
		return job.Program{Tests: &job.Tests{Code: act + "\ndef f(x):\n    act()\n    return x\n", Function: "f",
			Check: "def check(candidate):\n    assert candidate(1) == 1\n"}}
	})},
	{name: "tests class", use: policy.UseTests, run: aJob(func(act string) job.Program {
		return job.Program{Tests: &job.Tests{Code: act + "\nclass Thing:\n    def run(self, x):\n        act()\n        return x\n", Function: "Thing",
			Check: "def check(candidate):\n    assert candidate().run(1) == 1\n"}}
	})},
	{name: "tests stdio", use: policy.UseTests, run: aJob(func(act string) job.Program {
		return job.Program{Tests: &job.Tests{Code: act + "\nact()\n", Stdio: []job.Stdio{{Stdout: expected(act)}}}}
	})},
	{name: "session", use: policy.UseSession, run: aSession(job.SessionPython, false, func(act string) api.ExecuteRequest {
		return api.ExecuteRequest{Code: act + "\nact()"}
	})},
	{name: "session command", use: policy.UseSession, run: aSession(job.SessionPython, false, func(act string) api.ExecuteRequest {
		return api.ExecuteRequest{Command: script(act)}
	})},
	{name: "session shell", use: policy.UseShell, run: aSession(job.SessionShell, false, func(act string) api.ExecuteRequest {
		return api.ExecuteRequest{Code: script(act)}
	})},
	{name: "session fork", use: policy.UseSession, run: aSession(job.SessionPython, true, func(act string) api.ExecuteRequest {
		return api.ExecuteRequest{Code: act + "\nact()"}
	}), without: map[string]string{
		"task": "sessions can be forked at isolation cell only", "gvisor": "sessions can be forked at isolation cell only",
	}},
}

// script returns a bash program that calls act.
func script(act string) string {
	return "python3 -c '" + strings.ReplaceAll(act+"\nact()", "'", `'"'"'`) + "'\n"
}

// expected returns the output of act, from the comment at its beginning.
func expected(act string) string {
	line, _, _ := strings.Cut(act, "\n")
	if text, ok := strings.CutPrefix(line, "# prints "); ok {
		return text
	}
	return ""
}

// aJob runs act as a job.
func aJob(of func(act string) job.Program) func(*testing.T, *fleet, string, json.RawMessage) (*observed, error) {
	return func(t *testing.T, f *fleet, act string, p json.RawMessage) (*observed, error) {
		r, err := f.api.Run(t.Context(), job.Spec{Program: of(act), Policy: p, ExpiresIn: job.Duration(time.Minute)})
		if err != nil {
			return nil, err
		}
		o := &observed{
			outcome: r.Outcome, message: r.Message, stdout: r.Stdout, stderr: r.Stderr, usage: r.Usage,
			network: r.Network, artifacts: r.Artifacts, rows: r.Enforcement, raw: r,
		}
		if r.Tests == nil {
			return o, nil
		}
		for _, c := range r.Tests.Cases {
			if o.outcome, o.message = c.Outcome, c.Message; !c.Passed {
				break
			}
		}
		return o, nil
	}
}

// aSession executes act in a session, or in a copy of one.
func aSession(kind job.SessionKind, forked bool, of func(act string) api.ExecuteRequest) func(*testing.T, *fleet, string, json.RawMessage) (*observed, error) {
	return func(t *testing.T, f *fleet, act string, p json.RawMessage) (*observed, error) {
		s, err := f.api.CreateSession(t.Context(), job.SessionSpec{Kind: kind, Policy: p, Lease: job.Duration(5 * time.Minute)})
		if err != nil {
			return nil, err
		}
		defer f.close(t, s.ID)
		if forked {
			if s, err = f.api.ForkSession(t.Context(), s.ID); err != nil {
				return nil, err
			}
			defer f.close(t, s.ID)
		}
		e, err := f.api.Execute(t.Context(), s.ID, of(act))
		if err != nil {
			return nil, err
		}
		told := s.Enforcement
		if s, err = f.api.Session(t.Context(), s.ID); err != nil {
			return nil, err
		}
		if len(told) == 0 || len(told) != len(s.Enforcement) {
			t.Errorf("told of %d rows when it was made, and of %d afterwards", len(told), len(s.Enforcement))
		}
		o := &observed{
			outcome: e.Outcome, message: e.Message, stdout: e.Stdout, stderr: e.Stderr, usage: e.Usage, rows: s.Enforcement, raw: e,
		}
		if strings.Contains(string(p), `"artifacts"`) {
			left, err := f.api.ExportArtifacts(t.Context(), s.ID)
			if err != nil {
				return nil, err
			}
			o.artifacts = left.Artifacts
		}
		return o, nil
	}
}

func (f *fleet) close(t *testing.T, id job.ID) {
	if _, err := f.api.CloseSession(t.Context(), id); err != nil {
		t.Errorf("close session: %v", err)
	}
}
