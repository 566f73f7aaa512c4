package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// ends waits for the end of an unused session.
func (f *fleet) ends(t *testing.T, id job.ID, want job.Outcome, why string) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		s, err := f.api.Session(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if s.State == job.SessionEnded {
			if s.Outcome != want || !strings.Contains(s.Message, why) {
				t.Errorf("ended %s: %s", s.Outcome, s.Message)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it lives on")
		}
		<-time.After(100 * time.Millisecond)
	}
}

func sessionVariables(t *testing.T, f *fleet) {
	ctx := t.Context()
	id := f.session(t, job.SessionSpec{Policy: json.RawMessage(`{"callbacks": {"allow": ["ask", "llm_query_batched"], "max_calls": 5}}`)})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(f.api.SetVariable(ctx, id, "x", map[string]any{"a": []int{1, 2}}))
	check(f.api.SetContext(ctx, id, strings.Repeat("é", 1<<20)))
	e := f.execute(t, id, job.Succeeded, api.ExecuteRequest{Code: "y = x['a'][1] + n\nlen(context)", Variables: map[string]json.RawMessage{"n": json.RawMessage("40")}})
	if e.Value.Repr != "1048576" {
		t.Errorf("context: %+v", e.Value)
	}
	v, err := f.api.Variable(ctx, id, "y")
	check(err)
	if v.Repr != "42" || string(v.JSON) != "42" || v.Type != "int" {
		t.Errorf("y = %+v", v)
	}
	for name, value := range map[string]any{ // far more values than a frame may have, and longer texts
		"many": many(300_000), "long": strings.Repeat("é\"", 2_000_000), "deep": nested(150),
	} {
		check(f.api.SetVariable(ctx, id, name, value))
		want, err := json.Marshal(value)
		check(err)
		v, err := f.api.Variable(ctx, id, name)
		check(err)
		var got, sent any
		if err := errors.Join(json.Unmarshal(v.JSON, &got), json.Unmarshal(want, &sent)); err != nil || !reflect.DeepEqual(got, sent) {
			t.Errorf("%s: %d bytes of JSON, want %d: %v", name, len(v.JSON), len(want), err)
		}
	}
	f.execute(t, id, job.Succeeded, code("del many, long, deep\nhuge = 'x' * (17 << 20)"))
	if _, err := f.api.Variable(ctx, id, "huge"); !errors.Is(err, job.ErrTooLarge) || !strings.Contains(err.Error(), "write it to a file") {
		t.Errorf("huge: %v", err)
	}
	f.execute(t, id, job.Succeeded, code("del huge"))
	check(f.api.InjectFunctions(ctx, id, "ask"))
	all, err := f.api.Variables(ctx, id)
	check(err)
	if len(all) != 4 || all["x"].Type != "dict" || len(all["context"].Repr) > 4096 {
		t.Errorf("variables: %v", all)
	}
	if _, err := f.api.Variable(ctx, id, "nonesuch"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("nonesuch: %v", err)
	}
	for _, bad := range []string{"NaN", "[1", "\xff", "1 2"} {
		if err := f.putRaw(t, id, "z", bad); !strings.Contains(err, "is not JSON") {
			t.Errorf("%q: %s", bad, err)
		}
	}
}

// many returns a list of n numbers, and nested a list within n others.
func many(n int) []int { return make([]int, n) }

func nested(n int) any {
	if n == 0 {
		return []any{}
	}
	return []any{nested(n - 1)}
}

// sessionReset checks that a reset restores the initial state of a session, except its files.
func sessionReset(t *testing.T, f *fleet) {
	for _, level := range []string{"cell", "task"} {
		id := f.session(t, job.SessionSpec{
			Functions: []string{"first"}, Policy: json.RawMessage(`{"isolation": "` + level + `", "callbacks": {"allow": ["first", "later"]}}`),
		})
		if err := errors.Join(f.api.InjectFunctions(t.Context(), id, "later"), f.api.PutFile(t.Context(), id, "/workspace/mine.py", []byte("x = 1")),
			f.api.PutFile(t.Context(), id, "/workspace/pack/inner/part.py", []byte("y = 1"))); err != nil {
			t.Fatal(err)
		}
		f.execute(t, id, job.Succeeded, code("import mine, pack.inner.part, json, colorsys\ndef f(): return 1\nclass C: pass\nz = f\nmine.x = 2\nfirst = 5\nformat_exc = None"))
		f.execute(t, id, job.Succeeded, api.ExecuteRequest{Command: "cd /tmp; X=3; export Y=4"})
		r, err := f.api.ResetSession(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		want := &job.SessionReset{
			Dropped: []string{"C", "colorsys", "f", "first", "format_exc", "json", "mine", "pack", "z"}, Modules: []string{"mine", "pack", "pack.inner", "pack.inner.part"},
			Functions: []string{"first"},
			Kept:      []string{"files", "os.environ and the directory of python", "modules of the image and of packages", "threads and processes that run"},
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("%s: reset (-want +got):\n%s", level, diff)
		}
		for _, gone := range []string{"f", "C", "z", "mine", "json", "later"} {
			f.execute(t, id, job.Exception, code(gone))
		}
		e := f.execute(t, id, job.Succeeded, code("import sys\n'colorsys' in sys.modules, callable(first), callable(format_exc), open('mine.py').read(), __import__('mine').x"))
		if e.Value.Repr != "(True, True, True, 'x = 1', 1)" {
			t.Errorf("%s: after the reset: %s", level, e.Value.Repr)
		}
		if e := f.execute(t, id, job.Succeeded, api.ExecuteRequest{Command: "pwd; echo ${X-none} ${Y-none}"}); e.Stdout.Text != "/workspace\nnone none\n" {
			t.Errorf("%s: the shell after the reset: %q", level, e.Stdout.Text)
		}
		if all, err := f.api.Variables(t.Context(), id); err != nil || len(all) != 0 {
			t.Errorf("%s: variables %v, %v", level, all, err)
		}
	}
}

// sessionHelpers checks the built-in names of snippets.
func sessionHelpers(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Exception, code("def broken():\n    raise ValueError('why')\nbroken()"))
	for text, want := range map[string]string{
		"format_exc().splitlines()[-1]":                                                 "ValueError: why",
		"'line 2, in broken' in format_exc()":                                           "true",
		"try:\n    1 / 0\nexcept ArithmeticError:\n    said = format_exc()\nsaid[-36:]": "ZeroDivisionError: division by zero\n",
		"safe_json_dumps({'a': [1, {2}, object], 'b': 1 + 2j})":                         `{"a": [1, "{2}", "<class 'object'>"], "b": "(1+2j)"}`,
		"x = []\nx.append(x)\nsafe_json_dumps(x)":                                       `"[[...]]"`,
		"safe_json_dumps({(1, 2): 3}, indent=1)":                                        `"{(1, 2): 3}"`,
		"safe_json_dumps([1.5, None, 'é'], ensure_ascii=False)":                         `[1.5, null, "é"]`,
	} {
		e := f.execute(t, id, job.Succeeded, code(text))
		var got any
		if err := json.Unmarshal(e.Value.JSON, &got); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %s, want %s", text, e.Value.JSON, want)
		}
	}
	if all, err := f.api.Variables(t.Context(), id); err != nil || all["format_exc"].Type != "" {
		t.Errorf("variables: %v, %v", all, err)
	}
}

// sessionShellState checks that a script finds the state of the previous one, exported or not.
func sessionShellState(t *testing.T, f *fleet) {
	for _, level := range []string{"cell", "task", "gvisor"} {
		id := f.session(t, job.SessionSpec{Kind: job.SessionShell, Policy: json.RawMessage(`{"isolation": "` + level + `"}`)})
		for _, step := range []struct {
			script, out, err string
			code             int
		}{
			{"X=3; a=(1 'b c'); declare -A m=([k]=$'v\\n1'); declare -i n=2; f() { echo \"f $1 $X\"; }; shopt -s extglob; alias l=ls", "", "", 0},
			{"echo $X \"${a[1]}\" \"${m[k]}\"; f 7; n+=3; echo $n; shopt -q extglob && echo on; alias", "3 b c v\n1\nf 7 3\n5\non\nalias l='ls'\n", "", 0},
			{"set -eu; X=4", "", "", 0},
			{"false; echo no", "", "", 1},
			{"set +e; X=5; nonesuch", "", "bash: line 1: nonesuch: command not found\n", 127},
			{"echo $X; set +u; readonly R=1; set -x", "5\n", "", 0},
			{"echo $R", "1\n", "+ echo 1\n", 0},
			{"set +x; trap 'echo bye' EXIT; X=6", "bye\n", "+ set +x\n", 0}, // a trap of its own: no state is kept
			{"{ set +x; } 2>/dev/null; echo $X; big=$(head -c 1000000 /dev/zero | tr '\\0' y)", "5\n", "", 0},
			{"echo ${#big}; unset big; exit 9", "1000000\n", "", 9},
			{"cd /tmp; kill -9 $$", "", "", -9},
			{"pwd; env | grep -c BASH_ENV", "/workspace\n0\n", "", 1},
		} {
			want := job.Succeeded
			if step.code != 0 {
				want = job.Failed
			}
			e := f.execute(t, id, want, code(step.script))
			if e.Stdout.Text != step.out || !strings.HasPrefix(e.Stderr.Text, step.err) && step.err != "" || *e.ExitCode != step.code {
				t.Errorf("%s: %s: %d %q %q, want %d %q %q", level, step.script, *e.ExitCode, e.Stdout.Text, e.Stderr.Text, step.code, step.out, step.err)
			}
		}
	}
}

// sessionEnded checks that every request to an ended session is a conflict, and that its data can
// still be read.
func sessionEnded(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code("1"))
	if err := f.api.InjectFunctions(t.Context(), id, []string{}...); err != nil {
		t.Errorf("no functions to inject: %v", err)
	}
	if _, err := f.api.CloseSession(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/execute", `{"code": "1"}`}, {"GET", "/variables", ""}, {"GET", "/variables/x", ""}, {"PUT", "/variables/x", "1"}, {"PUT", "/context", "1"},
		{"PUT", "/functions", `{"functions": ["f"]}`}, {"POST", "/answers", `{"call": 1, "value": 1}`}, {"GET", "/files/workspace/f", ""}, {"PUT", "/files/workspace/f", "x"},
		{"POST", "/interrupt", ""}, {"POST", "/reset", ""}, {"POST", "/fork", ""}, {"POST", "/keepalive", ""}, {"POST", "/artifacts", ""}, {"GET", "/events", ""},
	} {
		rq, err := http.NewRequestWithContext(t.Context(), c.method, f.URL()+"/v1/sessions/"+string(id)+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		rq.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(rq)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusConflict || !strings.Contains(string(said), "has ended (succeeded): closed by its client") || strings.Contains(string(said), "Idempotency") {
			t.Errorf("%s %s: %d %s %v", c.method, c.path, resp.StatusCode, said, err)
		}
	}
	if s, err := f.api.CloseSession(t.Context(), id); err != nil || s.State != job.SessionEnded {
		t.Errorf("closed again: %+v, %v", s, err)
	}
	if l, err := f.api.Executions(t.Context(), id, ""); err != nil || len(l.Executions) != 1 {
		t.Errorf("executes: %+v, %v", l, err)
	}
}

func sessionFiles(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	data := bytes.Repeat([]byte{0, 255, 10}, 1<<20)
	if err := f.api.PutFile(t.Context(), id, "/workspace/new dir/ä?.bin", data); err != nil {
		t.Fatal(err)
	}
	e := f.execute(t, id, job.Succeeded, code("import os; os.path.getsize('new dir/ä?.bin')"))
	if e.Value.Repr != "3145728" {
		t.Errorf("size %s", e.Value.Repr)
	}
	if got, err := f.api.File(t.Context(), id, "/workspace/new dir/ä?.bin"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	f.execute(t, id, job.Succeeded, code("with open('large', 'wb') as f:\n  for i in range(21 << 10): f.write(i.to_bytes(2, 'big') * 512)"))
	large, err := f.api.File(t.Context(), id, "/workspace/large") // 21 MiB: more than a worker sends at once
	if err != nil || len(large) != 21<<20 || !bytes.Equal(large[20<<20:20<<20+2], []byte{0x50, 0}) {
		t.Errorf("read %d bytes, %v", len(large), err)
	}
	if got, err := f.api.FileRange(t.Context(), id, "/workspace/large", 20<<20, 4); err != nil || !bytes.Equal(got, []byte{0x50, 0, 0x50, 0}) {
		t.Errorf("a range: %v, %v", got, err)
	}
	if got, err := f.api.FileRange(t.Context(), id, "/workspace/large", 21<<20-3, 1<<20); err != nil || !bytes.Equal(got, large[21<<20-3:]) {
		t.Errorf("the end: %v, %v", got, err)
	}
	if got, err := f.api.File(t.Context(), id, "/proc/self/status"); err != nil || !bytes.HasPrefix(got, []byte("Name:")) {
		t.Errorf("what does not tell its length: %.100q, %v", got, err)
	}
	if got, err := f.api.File(t.Context(), id, "/workspace/nonesuch"); !errors.Is(err, job.ErrNotFound) || !strings.Contains(err.Error(), "/workspace/nonesuch") {
		t.Errorf("a file that is not there: %q, %v", got, err)
	}
	for _, path := range []string{"/workspace", "/etc/shadow", "/proc/1/environ"} { // an image may lack the second
		if got, err := f.api.File(t.Context(), id, path); !errors.Is(err, job.ErrInvalid) && !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if err := f.api.PutFile(t.Context(), id, "/usr/bin/python3", nil); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("write to the image: %v", err)
	}
}

func sessionInterrupt(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code("x = 5; import time"))
	done := make(chan *job.Execute, 1)
	go func() {
		e, err := f.api.Execute(t.Context(), id, code("print('begun', flush=True); time.sleep(1000)"))
		if err != nil {
			t.Error(err)
		}
		done <- e
	}()
	for {
		if err := f.api.Interrupt(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-done:
			if e == nil || e.Outcome != job.OutcomeCanceled || !e.Alive {
				t.Fatalf("interrupted: %+v", e)
			}
			if e := f.execute(t, id, job.Succeeded, code("x")); e.Value.Repr != "5" {
				t.Errorf("x = %+v", e.Value)
			}
			return
		case <-time.After(50 * time.Millisecond): // it had not begun yet
		}
	}
}

// sessionLease checks that a present client keeps its session, and that a vanished client does not,
// even if the session is busy.
func sessionLease(t *testing.T, f *fleet) {
	spec := job.SessionSpec{Lease: job.Duration(2 * time.Second)}
	kept, left := f.session(t, spec), f.session(t, spec)
	go func() { _, _ = f.api.Execute(t.Context(), left, code("import time; time.sleep(1000)")) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = f.api.AnswerCalls(ctx, kept, nil) }() // its stream renews the lease
	f.ends(t, left, job.Expired, "its client sent no request")
	f.execute(t, kept, job.Succeeded, code("1"))
}

// sessionDisplay uses stand-ins for libraries that the image does not have, with only the
// attributes that identify them.
func sessionDisplay(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	e := f.execute(t, id, job.Succeeded, code(`
import sys, types
class Frame:
    columns = ["a", "b"]
    def to_records(self): pass
    def head(self, n): return self
    @property
    def values(self): return types.SimpleNamespace(tolist=lambda: [[1, "x"], [2.5, None]])
    def __len__(self): return 200
plt = types.ModuleType("matplotlib.pyplot")
plt.get_fignums = lambda: [1, 2]
plt.figure = lambda n: types.SimpleNamespace(savefig=lambda f, format: f.write(b"\x89PNG" + bytes([n])))
plt.close = lambda which: None
sys.modules["matplotlib.pyplot"] = plt
Frame()`))
	want := []job.Display{
		{MediaType: "application/vnd.assay.table+json", Table: &job.Table{Columns: []string{"a", "b"}, Rows: [][]string{{"1", "x"}, {"2.5", "None"}}, Total: 200}},
		{MediaType: "image/png", Base64: "iVBORwE="},
		{MediaType: "image/png", Base64: "iVBORwI="},
	}
	if diff := cmp.Diff(want, e.Display); diff != "" {
		t.Errorf("display (-want +got):\n%s", diff)
	}
}

func sessionRefusals(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	for field, rq := range map[string]api.ExecuteRequest{
		"code":      {},
		"variables": {Code: "1", Variables: map[string]json.RawMessage{"not a name": json.RawMessage("1")}},
		"wall":      {Code: "1", Wall: -1},
	} {
		if _, err := f.api.Execute(t.Context(), id, rq); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, text := range []string{"x = '\x00'", "def f(:", "\u00ff\u00fe"} {
		if e := f.execute(t, id, job.Exception, code(text)); e.Exception.Type == "" || !e.Alive {
			t.Errorf("%q: %+v", text, e)
		}
	}
	f.execute(t, id, job.Succeeded, code("\ufeffx = 1\r\ny = x\r\n"))
	for field, spec := range map[string]job.SessionSpec{
		"kind":         {Kind: "ruby"},
		"idle_timeout": {IdleTimeout: job.Duration(48 * time.Hour)},
		"lease":        {Lease: 1},
		"functions":    {Functions: []string{"a b"}},
		"policy":       {Policy: json.RawMessage(`{"memory": "-1"}`)},
	} {
		if s, err := f.api.CreateSession(t.Context(), spec); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %+v, %v", field, s, err)
		}
	}
}

// sessionWorkerKilled checks that a dead worker ends its sessions with a clear outcome, and that
// waiting callers get an answer.
func sessionWorkerKilled(t *testing.T, f *fleet) {
	busy, quiet := f.session(t, job.SessionSpec{}), f.session(t, job.SessionSpec{})
	done := make(chan error, 1)
	go func() {
		e, err := f.api.Execute(t.Context(), busy, code("import time; time.sleep(1000)"))
		if err == nil && (e.Outcome != job.Lost || e.Alive) {
			err = fmt.Errorf("the execute ended %s (%s), alive %v", e.Outcome, e.Message, e.Alive)
		}
		done <- err
	}()
	f.executes(t, busy)
	if kill(t, filepath.Join(f.bin, "worker"), unix.SIGKILL) != 1 {
		t.Fatal("there is not one worker")
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(90 * time.Second):
		t.Fatal("the execute hangs")
	}
	f.ends(t, busy, job.Lost, "worker")
	f.execute(t, quiet, job.Lost, code("1")) // a caller that detects the loss gets the same outcome
	if _, err := f.api.Execute(t.Context(), quiet, code("1")); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "worker") {
		t.Errorf("execute after that: %v", err)
	}
	eventually(t, "there is a worker again", func() bool {
		s, err := f.api.CreateSession(t.Context(), job.SessionSpec{})
		return err == nil && f.execute(t, s.ID, job.Succeeded, code("1")).Alive
	})
}

// executes waits until a session is busy.
func (f *fleet) executes(t *testing.T, id job.ID) {
	t.Helper()
	eventually(t, "a request has to wait for its turn", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := f.api.Variables(ctx, id)
		return errors.Is(err, context.DeadlineExceeded)
	})
}

// putRaw sets a variable to a value that need not be JSON, and returns the answer.
func (f *fleet) putRaw(t *testing.T, id job.ID, name, value string) string {
	t.Helper()
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.URL()+"/v1/sessions/"+string(id)+"/variables/"+name, strings.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	rq.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("%q: %s, %v", value, resp.Status, err)
	}
	return string(body)
}
