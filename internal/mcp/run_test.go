package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// TestArguments checks that arguments become a complete job.
func TestArguments(t *testing.T) {
	t.Parallel()
	f := newScripted()
	f.policies = map[string]string{"small": `{"memory":"64Mi","wall":"5s"}`, "keeps": `{"artifacts":{"paths":["/workspace/a"],"max_files":1}}`}
	a := serve(t, Config{Fleet: f, Policy: json.RawMessage(`"small"`)})
	for _, c := range []struct {
		tool string
		args string
		want string // the spec, or a part of an error
	}{
		{"run_python", `{"code":"x","variables":{"n":9007199254740993}}`, `{"program":{"python":{"code":"x","variables":{"n":9007199254740993}}},"policy":"small"}`},
		{"run_python", `{"code":"x","timeout":1.5}`, `{"program":{"python":{"code":"x"}},"policy":{"memory":"64Mi","wall":"1.5s"}}`},
		{"run_python", `{"code":"x","timeout":6}`, "timeout: 6 s is more than the policy allows: ask for at most 5 s"},
		{"run_python", `{"code":"x","policy":"none","timeout":1}`, `policy "none": not found`},
		{"run_python", `{"code":"x","policy":"keeps","timeout":60}`, `{"program":{"python":{"code":"x"}},"policy":{"artifacts":{"paths":["/workspace/a"],"max_files":1},"wall":"1m0s"}}`},
		{"run_python", `{"code":"x","policy":"keeps","artifacts":["*"]}`, `artifacts: the policy sets the files to store (["/workspace/a"])`},
		{"run_python", `{"code":"x","artifacts":["*.csv","/tmp/x"]}`, `{"program":{"python":{"code":"x"}},"policy":{"artifacts":{"paths":["/workspace/*.csv","/tmp/x"]},"memory":"64Mi","wall":"5s"}}`},
		{"run_command", `{"argv":["ls","-l"],"stdin":"in","image":"other","policy":"any"}`, `{"image":"other","program":{"command":{"argv":["ls","-l"],"stdin":"in"}},"policy":"any"}`},
		{"run_command", `{"shell":"ls | wc","files":{"a.txt":{"text":"A"},"/b":{"base64":"Qg=="}}}`,
			`{"program":{"command":{"argv":["/bin/sh","-c","ls | wc"]}},"files":{"/b":{"base64":"Qg=="},"/workspace/a.txt":{"text":"A"}},"policy":"small"}`},
		{"run_command", `{}`, "argv: is missing"},
		{"run_command", `{"argv":["a"],"shell":"b"}`, "argv, shell: are both there"},
		{"run_python", `{}`, `missing properties: ["code"]`},
		{"run_python", `{"code":7}`, "/properties/code"},
		{"run_python", `{"code":"x","timeout":"1"}`, "/properties/timeout"},
		{"run_python", `{"code":"x","timeout":0}`, "/properties/timeout"},
		{"run_python", `{"code":"x","timeout":-1}`, "/properties/timeout"},
		{"run_python", `{"code":"x","timeout":1e9}`, "/properties/timeout"},
		{"run_python", `{"code":"x","timeuot":1}`, "timeuot"},
		{"run_python", `{"code":"x","variables":[]}`, "/properties/variables"},
		{"get_result", `{"job_id":"../.."}`, `job_id: "../.." is not an id`},
		{"execute", `{"session_id":"7","code":"x"}`, `session_id: "7" is not an id`},
		{"create_session", `{"kind":"ruby"}`, "/properties/kind"},
		{"read_artifact", `{"path":"a"}`, "job_id, session_id: send one of them"},
	} {
		f.specs = nil
		res := a.tool(c.tool, json.RawMessage(c.args), nil)
		switch {
		case res.IsError != !strings.HasPrefix(c.want, "{"):
			t.Errorf("%s %s: error %v: %s", c.tool, c.args, res.IsError, said(res))
		case res.IsError && (!strings.Contains(said(res), c.want) || len(f.specs) > 0):
			t.Errorf("%s %s: %s; want %s", c.tool, c.args, said(res), c.want)
		case !res.IsError:
			got, err := json.Marshal(f.specs[0])
			if err != nil || string(got) != c.want {
				t.Errorf("%s %s: %s, %v; want %s", c.tool, c.args, got, err, c.want)
			}
		}
	}
	if _, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_ruby"}); err == nil || !strings.Contains(err.Error(), "run_ruby") {
		t.Errorf("an unknown tool: %v", err)
	}
}

// TestPayloads checks that each end of a program has its own result. A tool fails only if the fleet could not run the
// program.
func TestPayloads(t *testing.T) {
	t.Parallel()
	three := 3
	boom := &job.ExceptionInfo{Type: "ValueError", Message: "no", Line: 2, Traceback: "Traceback …\nValueError: no\n"}
	for name, c := range map[string]struct {
		result job.Result
		want   Payload
		ours   bool
	}{
		"succeeded": {job.Result{Outcome: job.Succeeded, Stdout: job.Output{Text: "out"}, Stderr: job.Output{Text: "err"}, Value: &job.Value{Repr: "42"}, Usage: job.Usage{WallMS: 12.5}},
			Payload{Success: true, Stdout: "out", Stderr: "err", DurationMS: 12.5, Value: "42", Diagnostics: []Diagnostic{}}, false},
		"failed": {job.Result{Outcome: job.Failed, ExitCode: &three},
			Payload{ExitCode: &three, Diagnostics: []Diagnostic{{"error", "failed", "the program ended with exit code 3", 0}}}, false},
		"exception": {job.Result{Outcome: job.Exception, Exception: boom, Stderr: job.Output{Text: "before"}},
			Payload{Stderr: "before\n" + boom.Traceback, Diagnostics: []Diagnostic{{"error", "exception", "ValueError: no", 2}}}, false},
		"exception that it printed": {job.Result{Outcome: job.Exception, Exception: boom, Stderr: job.Output{Text: "x\n" + boom.Traceback}},
			Payload{Stderr: "x\n" + boom.Traceback, Diagnostics: []Diagnostic{{"error", "exception", "ValueError: no", 2}}}, false},
		"timed out": {job.Result{Outcome: job.TimedOut, Message: "ran longer than 1s", Feedback: []string{"ran longer than 1s", "try a faster way"}},
			Payload{Diagnostics: []Diagnostic{{"error", "timed_out", "ran longer than 1s", 0}, {"warning", "feedback", "try a faster way", 0}}}, false},
		"out of memory": {job.Result{Outcome: job.OutOfMemory}, Payload{Diagnostics: []Diagnostic{{"error", "out_of_memory", "the program ended as out of memory", 0}}}, false},
		"truncated": {job.Result{Outcome: job.Succeeded, Stdout: job.Output{Text: "…", Bytes: 9, Truncated: true}},
			Payload{Success: true, Stdout: "…", Diagnostics: []Diagnostic{{"warning", "truncated", "the program wrote 9 bytes to stdout, more than its policy keeps (stdout.limit)", 0}}}, false},
		"lost":   {job.Result{Outcome: job.Lost, Message: "workers died"}, Payload{Diagnostics: []Diagnostic{{"error", "lost", "workers died", 0}}}, true},
		"set up": {job.Result{Outcome: job.SetupError, Message: "there is no image x"}, Payload{Diagnostics: []Diagnostic{{"error", "setup_error", "there is no image x", 0}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newScripted()
			f.result = c.result
			f.result.ID = someID
			c.want.JobID, c.want.Outcome = someID, c.result.Outcome
			var got, text Payload
			res := serve(t, Config{Fleet: f}).tool("run_python", object{"code": "x"}, &got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if err := json.Unmarshal([]byte(res.Content[0].(*sdk.TextContent).Text), &text); err != nil || !cmp.Equal(text, got) {
				t.Errorf("the text is not the structured content: %v, %s", err, said(res))
			}
			if res.IsError != c.ours || c.ours != strings.Contains(said(res), "not at fault") {
				t.Errorf("error %v: %s", res.IsError, said(res))
			}
		})
	}
}

// TestLongOutput checks that long output is cut, and that the note in its middle has the arguments to read all of it.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	f := newScripted()
	all := strings.Repeat("äöü-", 20_000)
	f.output = all
	f.result.Stdout = job.Output{Text: all, Bytes: int64(len(all))}
	f.execute.Stdout = f.result.Stdout
	f.result.Value = &job.Value{Repr: all}
	a := serve(t, Config{Fleet: f})
	var p Payload
	a.tool("run_python", object{"code": "x"}, &p)
	if len(p.Stdout) > headBytes+tailBytes+500 || len(p.Value) > headBytes+tailBytes+500 {
		t.Fatalf("%d bytes, value of %d", len(p.Stdout), len(p.Value))
	}
	_, note, _ := strings.Cut(p.Stdout, "\n[")
	var missing, total, offset int64
	if _, err := fmt.Sscanf(note, "%d bytes of %d are left out here; read_output returns them: job_id "+string(someID)+", stream stdout, offset %d]", &missing, &total, &offset); err != nil {
		t.Fatalf("%v in %.200s", err, note)
	}
	_, tail, _ := strings.Cut(note, "]\n")
	got := p.Stdout[:offset]
	for offset > 0 {
		var part Part
		a.tool("read_output", object{"job_id": someID, "offset": offset, "limit": 1001}, &part)
		if part.Encoding != "text" {
			t.Fatalf("%+v", part)
		}
		got, offset = got+part.Data, part.NextOffset
	}
	if head := total - missing - int64(len(tail)); got != all || total != int64(len(all)) || !strings.HasSuffix(all, tail) || p.Stdout[:head] != all[:head] || p.Stdout[head] != '\n' {
		t.Errorf("%d bytes come of it, of %d; %d missing between %d and %d", len(got), total, missing, head, len(tail))
	}
	a.tool("execute", object{"session_id": someID, "code": "x"}, &p)
	if !strings.Contains(p.Stdout, "are left out here; they are not kept: write long output to a file") {
		t.Errorf("%.300s", p.Stdout[headBytes-10:])
	}
}

// TestAdvice checks that every error of the API has advice for the agent.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for _, err := range []error{job.ErrInvalid, job.ErrNotFound, job.ErrGone, job.ErrConflict, job.ErrLost, job.ErrUnavailable, job.ErrTooLarge, job.ErrTooMany, job.ErrRefused, api.ErrUnauthorized} {
		f := newScripted()
		f.err = fmt.Errorf("submit: %w", err)
		res := serve(t, Config{Fleet: f}).tool("run_python", object{"code": "x"}, nil)
		lines := strings.Split(said(res), "\n")
		if !res.IsError || !strings.Contains(lines[0], err.Error()) || len(lines) != 2 || len(lines[1]) < 20 {
			t.Errorf("%v: error %v, %q", err, res.IsError, lines)
		}
	}
}

// TestCancel checks that a call's job is canceled when the call is canceled, or its client is gone.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*agent, context.CancelFunc){
		"canceled": func(_ *agent, cancel context.CancelFunc) { cancel() },
		"gone":     func(a *agent, cancel context.CancelFunc) { _ = a.cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newScripted()
			f.hang = true
			a := serve(t, Config{Fleet: f})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rq := &sdk.CallToolParams{Name: "run_python", Arguments: object{"code": "x"}}
			rq.SetProgressToken("p")
			over := make(chan error, 1)
			go func() { _, err := a.CallTool(ctx, rq); over <- err }()
			if p := <-a.heard; p.ProgressToken != "p" || p.Message != "job "+string(someID)+" is running" {
				t.Errorf("%+v", p)
			}
			end(a, cancel)
			soon(t, "the job is canceled", func() bool { return f.has("cancel " + string(someID)) })
			if err := <-over; err == nil {
				t.Error("the call came to an end of its own")
			}
		})
	}
}
