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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// ends waits for the end of a session that nobody touches.
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
	check(f.api.PutFile(ctx, id, "/workspace/kept", []byte("k")))
	check(f.api.ResetSession(ctx, id))
	f.execute(t, id, job.Exception, code("x"))
	if e := f.execute(t, id, job.Succeeded, code("callable(ask), open('kept').read()")); e.Value.Repr != "(True, 'k')" {
		t.Errorf("after the reset: %+v", e.Value)
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

// sessionLease: a client that is there keeps its session, and one that vanishes
// does not, even if the session is at work.
func sessionLease(t *testing.T, f *fleet) {
	spec := job.SessionSpec{Lease: job.Duration(2 * time.Second)}
	kept, left := f.session(t, spec), f.session(t, spec)
	go func() { _, _ = f.api.Execute(t.Context(), left, code("import time; time.sleep(1000)")) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = f.api.AnswerCalls(ctx, kept, nil) }() // its stream is a sign of life
	f.ends(t, left, job.Expired, "its client gave no sign")
	f.execute(t, kept, job.Succeeded, code("1"))
}

// sessionDisplay has stand-ins for the libraries, which the image does not have:
// what they are known by is all that is used.
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

// sessionWorkerKilled: a dead worker ends its sessions with a clear outcome, and
// whoever waits for one is not left hanging.
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
	f.execute(t, quiet, job.Lost, code("1")) // whoever finds it out is told, like the one it happened to
	if _, err := f.api.Execute(t.Context(), quiet, code("1")); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "worker") {
		t.Errorf("execute after that: %v", err)
	}
	eventually(t, "there is a worker again", func() bool {
		s, err := f.api.CreateSession(t.Context(), job.SessionSpec{})
		return err == nil && f.execute(t, s.ID, job.Succeeded, code("1")).Alive
	})
}

// executes waits until a session is at work.
func (f *fleet) executes(t *testing.T, id job.ID) {
	t.Helper()
	eventually(t, "a request has to wait for its turn", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := f.api.Variables(ctx, id)
		return errors.Is(err, context.DeadlineExceeded)
	})
}

// putRaw sets a variable to what need not be JSON, and returns the answer.
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
