package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
)

// fusionAnswer has the fields of a SandboxFusion answer that its clients read.
type fusionAnswer struct {
	Status        string     `json:"status"`
	CompileResult *fusionRun `json:"compile_result"`
	RunResult     *fusionRun `json:"run_result"`
}

type fusionRun struct {
	Status     string `json:"status"`
	ReturnCode *int   `json:"return_code"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
}

// post sends a request to an endpoint of a drop-in, and returns the answer.
func (f *fleet) post(t *testing.T, path string, request any) (status int, body []byte) {
	t.Helper()
	raw, err := json.Marshal(request)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL()+path, bytes.NewReader(raw))
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, body
}

// question is a program of the overload, and the only right answer to it.
type question struct {
	code, stdout string
	exit         int
}

func (q question) wrong(body []byte) bool {
	var a fusionAnswer
	if json.Unmarshal(body, &a) != nil || a.RunResult == nil || a.RunResult.ReturnCode == nil {
		return true
	}
	want := "Success"
	if q.exit != 0 {
		want = "Failed"
	}
	return a.Status != want || a.RunResult.Status != "Finished" || *a.RunResult.ReturnCode != q.exit || a.RunResult.Stdout != q.stdout
}

// Under overload, each client gets the result of its program, or an answer to retry.
func TestOverloadedDropIn(t *testing.T) {
	t.Parallel()
	f := start(t, "ASSAY_DROP_INS=sandboxfusion")
	const clients = 256
	var mu sync.Mutex
	var served, late [3]int
	var wg sync.WaitGroup
	until := time.Now().Add(20 * time.Second)
	for c := range clients {
		wg.Go(func() {
			for i := c; time.Now().Before(until); i += clients {
				kind := i % 3
				q := [3]question{
					{code: fmt.Sprintf("print(%d)", i), stdout: fmt.Sprintln(i)},
					{code: fmt.Sprintf("import time\nwhile time.process_time() < 0.3: pass\nprint(%d)", i), stdout: fmt.Sprintln(i)},
					{code: "import sys; sys.exit(4)", exit: 4},
				}[kind]
				status, body := f.post(t, "/sandboxfusion/run_code", map[string]any{
					"compile_timeout": 0.1, "run_timeout": 1, "memory_limit_MB": 256, "language": "python", "code": q.code,
				})
				mu.Lock()
				switch {
				case status == http.StatusGatewayTimeout:
					late[kind]++
				case status != http.StatusOK || q.wrong(body):
					t.Errorf("%q: %d %s", q.code, status, body)
				default:
					served[kind]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("served %v, told to come again %v", served, late)
}

// A worker without a core for longer than its programs' limit does not time out programs that ended
// in time.
func TestWorkerWithoutACore(t *testing.T) {
	t.Parallel()
	f := start(t)
	worker := filepath.Join(f.bin, "worker")
	for _, level := range []string{"cell", "task", "gvisor"} {
		const code = "import sys, time; time.sleep(0.5); sys.exit(4)"
		ran(t, f, level, python("1")) // warm-up
		var wg sync.WaitGroup
		for _, p := range []job.Program{python(code), {Command: &job.Command{Argv: []string{"python3", "-c", code}}}, {Code: &job.Code{Language: "python", Source: code}}} {
			wg.Go(func() {
				r, err := f.api.Run(t.Context(), spec(t, p, level, limits{"wall": "1s"}, ""))
				if err != nil || r.Outcome != job.Failed || *r.ExitCode != 4 {
					t.Errorf("%s, %s: %+v, %v", level, p.Kind(), r, err)
				}
			})
		}
		time.Sleep(400 * time.Millisecond)
		kill(t, worker, unix.SIGSTOP)
		time.Sleep(2 * time.Second)
		kill(t, worker, unix.SIGCONT)
		wg.Wait()
	}
}

// C++ by each of the three, with the answers of the servers that they replace.
func TestCompiledByDropIns(t *testing.T) {
	t.Parallel()
	f := start(t, "ASSAY_DROP_INS=sandboxfusion,piston,code-judge")
	for name, c := range map[string]struct {
		code                      string
		fusion, piston, codeJudge string // required parts of the answers
	}{
		"right": {adds,
			`{"status":"Success","compile_result":{"status":"Finished","return_code":0},"run_result":{"status":"Finished","return_code":0,"stdout":"5\n"}}`,
			`{"compile":{"code":0,"signal":null},"run":{"code":0,"signal":null,"stdout":"5\n","status":null},"language":"cpp"}`,
			`{"success":true,"run_success":true,"reason":""}`},
		"does not compile": {"int main() { return x; }",
			`{"status":"Failed","compile_result":{"status":"Finished","return_code":1},"run_result":null}`,
			`{"compile":{"code":1,"signal":null,"status":"RE"},"run":{"code":1},"language":"cpp"}`,
			`{"success":false,"run_success":false,"reason":""}`},
		"fails": {"#include <cstdlib>\nint main() { abort(); }",
			`{"status":"Failed","compile_result":{"return_code":0},"run_result":{"status":"Finished","return_code":-6}}`,
			`{"compile":{"code":0},"run":{"code":null,"signal":"SIGABRT","status":"SG"}}`,
			`{"success":false,"run_success":false,"reason":""}`},
		"never ends": {"#include <unistd.h>\nint main() { sleep(1000); }",
			`{"status":"Failed","compile_result":{"return_code":0},"run_result":{"status":"TimeLimitExceeded","return_code":null}}`,
			`{"compile":{"code":0},"run":{"code":null,"signal":"SIGKILL","status":"TO"}}`,
			`{"success":false,"run_success":false,"reason":"worker_timeout"}`},
	} {
		for path, q := range map[string]struct {
			request map[string]any
			want    string
		}{
			"/sandboxfusion/run_code": {map[string]any{"language": "cpp", "code": c.code, "stdin": "2 3", "compile_timeout": 30, "run_timeout": 1}, c.fusion},
			"/piston/api/v2/execute": {map[string]any{"language": "c++", "version": "*", "stdin": "2 3", "compile_timeout": 30000, "run_timeout": 1000,
				"files": []any{map[string]string{"content": c.code}}}, c.piston},
			"/code-judge/judge": {map[string]any{"type": "cpp", "solution": c.code, "input": "2 3", "expected_output": "5"}, c.codeJudge},
		} {
			var got, want any
			status, body := f.post(t, path, q.request)
			for range 5 { // on a busy machine, as clients do
				if status != http.StatusGatewayTimeout && !bytes.Contains(body, []byte("queue_timeout")) {
					break
				}
				status, body = f.post(t, path, q.request)
			}
			if err := json.Unmarshal([]byte(q.want), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(body, &got); err != nil || status != http.StatusOK || !has(got, want) {
				t.Errorf("%s, %s: %d %s, want %s", name, path, status, body, q.want)
			}
		}
	}
}

// has reports whether an answer has all wanted parts.
func has(got, want any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		return got == want
	}
	g, ok := got.(map[string]any)
	for name, v := range w {
		ok = ok && has(g[name], v)
	}
	return ok
}
