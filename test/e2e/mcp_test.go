package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/mcp"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// mcpFleet returns a fleet with two tenants, a and b.
func mcpFleet(t *testing.T) *fleet {
	t.Helper()
	f := start(t, "ASSAY_TOKENS=key-a=a,key-b=b")
	var err error
	if f.api, err = client.New(f.URL(), client.WithToken("key-a")); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestMCP runs the table of the MCP executor in docs/integrations/sandboxes.md, a row per test, over standard
// input and output of a process and over HTTP.
func TestMCP(t *testing.T) {
	t.Parallel()
	f := mcpFleet(t)
	for name, policy := range map[string]string{"short": `{"wall":"1s"}`, "long": `{"wall":"10m"}`} {
		if err := f.api.PutPolicy(t.Context(), name, json.RawMessage(policy)); err != nil {
			t.Fatal(err)
		}
	}
	for name, connect := range map[string]func(*testing.T, *fleet) *tools{"stdio": overStdio, "HTTP": overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, row := range mcpRows {
				t.Run(row.name, func(t *testing.T) { row.tell(t, connect(t, f)) })
			}
		})
	}
}

// tools is an agent's connection.
type tools struct {
	*sdk.ClientSession
	fleet *fleet
	heard chan *sdk.ProgressNotificationParams
}

func connect(t *testing.T, f *fleet, transport sdk.Transport) *tools {
	t.Helper()
	a := &tools{fleet: f, heard: make(chan *sdk.ProgressNotificationParams, 1000)}
	client := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, rq *sdk.ProgressNotificationClientRequest) { a.heard <- rq.Params }})
	var err error
	if a.ClientSession, err = client.Connect(t.Context(), transport, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// overStdio serves the tools from a child process.
func overStdio(t *testing.T, f *fleet) *tools {
	cmd := exec.Command(filepath.Join(f.bin, "assay"), "--url", f.URL(), "mcp")
	cmd.Env = append(cmd.Environ(), "ASSAY_TOKEN=key-a")
	cmd.Stderr = t.Output()
	return connect(t, f, &sdk.CommandTransport{Command: cmd})
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// overHTTP serves the tools from the dispatcher.
func overHTTP(t *testing.T, f *fleet) *tools { return overHTTPAs(t, f, "key-a") }

func overHTTPAs(t *testing.T, f *fleet, token string) *tools {
	return connect(t, f, &sdk.StreamableClientTransport{Endpoint: f.URL() + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}, MaxRetries: -1})
}

// call calls a tool and decodes its result.
func call[Out any](t *testing.T, a *tools, tool string, args map[string]any) (out Out) {
	t.Helper()
	res, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if res.IsError {
		t.Fatalf("%s: %s", tool, texts(res))
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatalf("%s: %v in %s", tool, err, raw)
	}
	return out
}

// refused calls a tool that fails, and returns its message.
func refused(t *testing.T, a *tools, tool string, args map[string]any) string {
	t.Helper()
	res, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if !res.IsError {
		t.Errorf("%s %v was not refused: %s", tool, args, texts(res))
	}
	return texts(res)
}

func texts(res *sdk.CallToolResult) (all string) {
	for _, c := range res.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			all += text.Text + "\n"
		}
	}
	return all
}

type args = map[string]any

func runPython(t *testing.T, a *tools, code string, more ...any) mcp.Payload {
	t.Helper()
	all := args{"code": code}
	for i := 0; i < len(more); i += 2 {
		all[more[i].(string)] = more[i+1]
	}
	return call[mcp.Payload](t, a, "run_python", all)
}

// kinds returns the kinds of a result's diagnostics.
func kinds(p mcp.Payload) (all string) {
	for _, d := range p.Diagnostics {
		all += d.Severity + " " + d.Kind + " " + fmt.Sprint(d.Line) + ";"
	}
	return all
}

// mcpRows are the rows of the table in docs/integrations/sandboxes.md, by name.
var mcpRows = []struct {
	name string
	tell func(*testing.T, *tools)
}{
	{"code", func(t *testing.T, a *tools) {
		if p := runPython(t, a, "x = 20\nprint('hi')\nx + 1"); p.Stdout != "hi\n" || p.Value != "21" {
			t.Errorf("%+v", p)
		}
	}},
	{"timeout", func(t *testing.T, a *tools) {
		if p := runPython(t, a, "while True: pass", "timeout", 0.5); p.Success || p.Outcome != job.TimedOut || p.DurationMS > 60_000 {
			t.Errorf("%+v", p)
		}
		if text := refused(t, a, "run_python", args{"code": "1", "policy": "short", "timeout": 2}); !strings.Contains(text, "ask for at most 1 s") {
			t.Error(text)
		}
	}},
	{"variables", func(t *testing.T, a *tools) {
		if p := runPython(t, a, "print(n + 1, rows[0]['k'])", "variables", args{"n": json.Number("9007199254740993"), "rows": []any{args{"k": "v"}}}); p.Stdout != "9007199254740994 v\n" {
			t.Errorf("%+v", p)
		}
	}},
	{"success", func(t *testing.T, a *tools) {
		if p := runPython(t, a, "1"); !p.Success || p.Outcome != job.Succeeded {
			t.Errorf("%+v", p)
		}
		if p := runPython(t, a, "raise SystemExit(3)"); p.Success || p.ExitCode == nil || *p.ExitCode != 3 {
			t.Errorf("%+v", p)
		}
	}},
	{"stdout", func(t *testing.T, a *tools) {
		p := runPython(t, a, "for i in range(10_000): print(i)")
		var missing, all int64
		_, note, _ := strings.Cut(p.Stdout, "\n[")
		if _, err := fmt.Sscanf(note, "%d bytes of %d are left out here; read_output", &missing, &all); err != nil || all != 48890 || !strings.HasPrefix(p.Stdout, "0\n1\n") || !strings.HasSuffix(p.Stdout, "\n9999\n") {
			t.Fatalf("%v: %d of %d, %.100s … %s", err, missing, all, p.Stdout, p.Stdout[len(p.Stdout)-50:])
		}
		part := call[mcp.Part](t, a, "read_output", args{"job_id": p.JobID, "offset": 48890 - 5})
		if part.Data != "9999\n" || part.NextOffset != 0 {
			t.Errorf("%+v", part)
		}
	}},
	{"stderr", func(t *testing.T, a *tools) {
		p := runPython(t, a, "import sys\nprint('w', file=sys.stderr)\n1 / 0")
		if !strings.HasPrefix(p.Stderr, "w\n") || strings.Count(p.Stderr, "ZeroDivisionError") != 1 {
			t.Errorf("%+v", p)
		}
	}},
	{"duration_ms", func(t *testing.T, a *tools) {
		if p := runPython(t, a, "import time; time.sleep(0.3)"); p.DurationMS < 300 || p.DurationMS > 10_000 {
			t.Errorf("%+v", p)
		}
	}},
	{"diagnostics", func(t *testing.T, a *tools) {
		for code, want := range map[string]string{"1": "", "\nint('x')": "error exception 2;", "def f(:": "error exception 1;", "raise SystemExit(3)": "error failed 0;"} {
			if p := runPython(t, a, code); kinds(p) != want || p.Diagnostics == nil {
				t.Errorf("%q: %+v, want %s", code, p.Diagnostics, want)
			}
		}
	}},
	{"text", func(t *testing.T, a *tools) {
		res, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_python", Arguments: args{"code": "print(1)"}})
		var p mcp.Payload
		if err != nil || json.Unmarshal([]byte(texts(res)), &p) != nil || p.Stdout != "1\n" {
			t.Errorf("%v: %s", err, texts(res))
		}
	}},
	{"run_command", func(t *testing.T, a *tools) {
		p := call[mcp.Payload](t, a, "run_command", args{"argv": []string{"cat", "in.txt", "-"}, "stdin": "b", "files": args{"in.txt": args{"text": "a"}}})
		if p.Stdout != "ab" || !p.Success {
			t.Errorf("%+v", p)
		}
		if p := call[mcp.Payload](t, a, "run_command", args{"shell": "echo $((6*7)) | tee x; exit 4"}); p.Stdout != "42\n" || *p.ExitCode != 4 || p.Success {
			t.Errorf("%+v", p)
		}
	}},
	{"artifacts", func(t *testing.T, a *tools) {
		p := runPython(t, a, "open('a.bin','wb').write(bytes(range(256)))", "artifacts", []string{"*.bin"})
		if len(p.Artifacts) != 1 || p.Artifacts[0].Path != "/workspace/a.bin" || p.Artifacts[0].Bytes != 256 {
			t.Fatalf("%+v", p)
		}
		if l := call[mcp.Files](t, a, "list_artifacts", args{"job_id": p.JobID}); len(l.Artifacts) != 1 || l.Artifacts[0] != p.Artifacts[0] {
			t.Errorf("%+v", l)
		}
		part := call[mcp.Part](t, a, "read_artifact", args{"job_id": p.JobID, "path": "a.bin", "offset": 128, "limit": 2})
		if raw, err := base64.StdEncoding.DecodeString(part.Data); err != nil || string(raw) != "\x80\x81" || part.NextOffset != 130 {
			t.Errorf("%+v", part)
		}
		r, err := a.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: p.Artifacts[0].URI})
		if err != nil || len(r.Contents[0].Blob) != 256 {
			t.Errorf("%v", err)
		}
	}},
	{"session", mcpSession},
	{"policy", func(t *testing.T, a *tools) {
		if p := runPython(t, a, "while True: pass", "policy", "short"); p.Outcome != job.TimedOut {
			t.Errorf("%+v", p)
		}
		if text := refused(t, a, "run_python", args{"code": "1", "policy": "unheard-of"}); !strings.Contains(text, "unheard-of") {
			t.Error(text)
		}
	}},
	{"cancellation", mcpCancellation},
	{"progress", func(t *testing.T, a *tools) {
		rq := &sdk.CallToolParams{Name: "run_python", Arguments: args{"code": "import time; time.sleep(5)"}}
		rq.SetProgressToken("mine")
		if _, err := a.CallTool(t.Context(), rq); err != nil {
			t.Fatal(err)
		}
		last := -1.0
		for n := len(a.heard); n > 0; n-- {
			p := <-a.heard
			if p.ProgressToken != "mine" || p.Progress <= last || !strings.HasPrefix(p.Message, "job ") {
				t.Errorf("%+v after %v", p, last)
			}
			last = p.Progress
		}
		if last < 2 {
			t.Errorf("the last was heard after %v s", last)
		}
	}},
	{"errors", func(t *testing.T, a *tools) {
		for tool, all := range map[string]args{"run_python": {"code": "1", "image": "assay.local/unheard-of"}, "get_result": {"job_id": job.NewID()}, "execute": {"session_id": job.NewID(), "code": "1"}} {
			if text := refused(t, a, tool, all); len(strings.Split(strings.TrimSpace(text), "\n")) < 2 {
				t.Errorf("%s does not say what to do: %s", tool, text)
			}
		}
	}},
}

// mcpSession checks that an execution finds the state of the previous one, and another tenant does
// not.
func mcpSession(t *testing.T, a *tools) {
	s := call[mcp.Created](t, a, "create_session", args{})
	execute := func(more args) mcp.Payload {
		more["session_id"] = s.SessionID
		return call[mcp.Payload](t, a, "execute", more)
	}
	if p := execute(args{"code": "x = n * 2", "variables": args{"n": 21}}); !p.Success || p.SessionID != s.SessionID {
		t.Fatalf("%+v", p)
	}
	if p := execute(args{"code": "open('f.txt','w').write('file'); print(x)\nx"}); p.Stdout != "42\n" || p.Value != "42" {
		t.Errorf("%+v", p)
	}
	if p := execute(args{"command": "cat f.txt"}); p.Stdout != "file" {
		t.Errorf("%+v", p)
	}
	if p := call[mcp.Part](t, a, "read_artifact", args{"session_id": s.SessionID, "path": "f.txt", "offset": 1}); p.Data != "ile" {
		t.Errorf("%+v", p)
	}
	if p := execute(args{"code": "1/0"}); p.Success || kinds(p) != "error exception 1;" || !*p.Alive {
		t.Errorf("%+v", p)
	}
	if p := execute(args{"code": "while True: pass", "timeout": 0.5}); p.Outcome != job.TimedOut || !*p.Alive {
		t.Errorf("%+v", p)
	}
	for tool, more := range map[string]args{"execute": {"code": "x"}, "close_session": {}, "read_artifact": {"path": "f.txt"}} {
		more["session_id"] = s.SessionID
		if text := refused(t, overHTTPAs(t, a.fleet, "key-b"), tool, more); !strings.Contains(text, "not found") {
			t.Errorf("%s in another tenant's session: %s", tool, text)
		}
	}
	if c := call[mcp.Closed](t, a, "close_session", args{"session_id": s.SessionID}); !c.Closed {
		t.Errorf("%+v", c)
	}
	if text := refused(t, a, "execute", args{"session_id": s.SessionID, "code": "x"}); !strings.Contains(text, "create") {
		t.Error(text)
	}
}

// mcpCancellation checks that a canceled call cancels its job, and interrupts the execution of a
// session.
func mcpCancellation(t *testing.T, a *tools) {
	canceled := func(tool string, all args, running func() bool) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		over := make(chan error, 1)
		rq := &sdk.CallToolParams{Name: tool, Arguments: all}
		rq.SetProgressToken(tool)
		go func() { _, err := a.CallTool(ctx, rq); over <- err }()
		eventually(t, tool+" runs", running)
		cancel()
		if err := <-over; err == nil {
			t.Errorf("%s was not canceled", tool)
		}
	}
	mark := string(job.NewID())
	id := func() (found job.ID, state job.State) {
		for j, err := range a.fleet.api.Jobs(t.Context(), client.JobFilter{Since: time.Now().Add(-time.Minute)}) {
			if err != nil {
				t.Fatal(err)
			}
			if full, err := a.fleet.api.Job(t.Context(), j.ID, 0); err == nil && strings.Contains(string(mustJSON(t, full.Spec)), mark) {
				return j.ID, j.State
			}
		}
		return "", ""
	}
	canceled("run_python", args{"code": "while True: pass # " + mark, "timeout": 600}, func() bool { _, state := id(); return state == job.Running })
	eventually(t, "the job is canceled", func() bool { _, state := id(); return state == job.Canceled })

	s := call[mcp.Created](t, a, "create_session", args{"policy": "long"})
	call[mcp.Payload](t, a, "execute", args{"session_id": s.SessionID, "code": "x = 7"})
	begun := time.Now()
	canceled("execute", args{"session_id": s.SessionID, "timeout": 500, "code": "while True: pass"}, func() bool { return time.Since(begun) > time.Second })
	if p := call[mcp.Payload](t, a, "execute", args{"session_id": s.SessionID, "code": "x"}); p.Value != "7" || time.Since(begun) > time.Minute {
		t.Errorf("after %v: %+v", time.Since(begun), p)
	}
	call[mcp.Closed](t, a, "close_session", args{"session_id": s.SessionID})
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A session of a process on standard input and output ends with it, regardless of the way. Without
// a fleet, nothing hangs.
func TestMCPProcess(t *testing.T) {
	t.Parallel()
	f := mcpFleet(t)
	ended := func(id job.ID) func() bool {
		return func() bool {
			s, err := f.api.Session(t.Context(), id)
			return err == nil && s.State == job.SessionEnded
		}
	}
	a := overStdio(t, f)
	s := call[mcp.Created](t, a, "create_session", args{})
	if _, err := f.api.Execute(t.Context(), s.SessionID, api.ExecuteRequest{Code: "1"}); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("the process: %v", err)
	}
	if !ended(s.SessionID)() {
		t.Error("its session outlives it")
	}

	cmd := exec.Command(filepath.Join(f.bin, "assay"), "--url", "http://"+testenv.Address(t), "--patience", "300ms", "mcp")
	dead := connect(t, f, &sdk.CommandTransport{Command: cmd})
	begun := time.Now()
	if text := refused(t, dead, "run_python", args{"code": "1"}); !strings.Contains(text, "does not answer") || time.Since(begun) > 20*time.Second {
		t.Errorf("after %v: %s", time.Since(begun), text)
	}
	cmd = exec.Command(filepath.Join(f.bin, "assay"), "--url", f.URL(), "--token", "key-x", "mcp")
	if text := refused(t, connect(t, f, &sdk.CommandTransport{Command: cmd}), "run_python", args{"code": "1"}); !strings.Contains(text, "ASSAY_TOKEN") {
		t.Error(text)
	}
	out, err := exec.Command(filepath.Join(f.bin, "assay"), "mcp", "--policy", "./unheard-of.json").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--policy") {
		t.Errorf("%v: %s", err, out)
	}
}
