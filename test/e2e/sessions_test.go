package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// TestSessions tells the stories of live sessions over one fleet.
func TestSessions(t *testing.T) {
	f := start(t)
	for name, story := range map[string]func(*testing.T, *fleet){
		"state and output": sessionState, "timed out": sessionTimedOut, "callbacks": sessionCallbacks, "hostile": sessionHostile,
		"shell": sessionShell, "idle": sessionIdle,
	} {
		t.Run(name, func(t *testing.T) { story(t, f) })
	}
}

func (f *fleet) session(t *testing.T, spec job.SessionSpec) job.ID {
	t.Helper()
	s, err := f.api.CreateSession(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

func (f *fleet) execute(t *testing.T, id job.ID, want job.Outcome, rq api.ExecuteRequest) *job.Execute {
	t.Helper()
	e, err := f.api.Execute(t.Context(), id, rq)
	if err != nil {
		t.Fatal(err)
	}
	if e.Outcome != want {
		t.Fatalf("%q: outcome %s (%s), want %s; %+v", rq.Code, e.Outcome, e.Message, want, e.Exception)
	}
	return e
}

func code(text string) api.ExecuteRequest { return api.ExecuteRequest{Code: text} }

func sessionState(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	e := f.execute(t, id, job.Succeeded, code("import os, sys\nx = 20\nprint('a')\nos.system('echo b')\nprint('c', file=sys.stderr)\nx + 1"))
	if e.Value == nil || e.Value.Repr != "21" || e.Stdout.Text != "a\nb\n" || e.Stderr.Text != "c\n" || e.Variables["x"].Repr != "20" {
		t.Errorf("first execute: %+v", e)
	}
	e = f.execute(t, id, job.Exception, code("1 / 0"))
	if e.Exception.Line != 1 || strings.Contains(e.Exception.Traceback, "session") || !e.Alive {
		t.Errorf("exception: %+v", e.Exception)
	}
	if e = f.execute(t, id, job.Succeeded, code("x")); e.Value.Repr != "20" {
		t.Errorf("x = %+v", e.Value)
	}
	e = f.execute(t, id, job.Succeeded, code("print('z' * 1_000_000)"))
	if !e.Stdout.Truncated || e.Stdout.Bytes != 1_000_001 || len(e.Stdout.Text) > 100<<10 || !strings.HasSuffix(e.Stdout.Text, "z\n") {
		t.Errorf("flood: %d bytes, %d kept, truncated %v", e.Stdout.Bytes, len(e.Stdout.Text), e.Stdout.Truncated)
	}
	list, err := f.api.Executes(t.Context(), id, "")
	if err != nil || len(list.Executes) != 4 || list.Executes[2].Code != "x" {
		t.Errorf("recorded: %+v, %v", list, err)
	}
	s, err := f.api.CloseSession(t.Context(), id)
	if err != nil || s.State != job.SessionEnded || s.Outcome != job.Succeeded {
		t.Errorf("closed: %+v, %v", s, err)
	}
	if _, err := f.api.Execute(t.Context(), id, code("x")); !errors.Is(err, job.ErrConflict) {
		t.Errorf("execute after the end: %v, want a conflict", err)
	}
}

func sessionTimedOut(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{})
	f.execute(t, id, job.Succeeded, code("x = 7"))
	for _, loop := range []string{"import time\ntime.sleep(100)", "while True: pass"} {
		e := f.execute(t, id, job.TimedOut, api.ExecuteRequest{Code: loop, Wall: job.Duration(300 * time.Millisecond)})
		if !e.Alive {
			t.Errorf("%q: the session is gone", loop)
		}
	}
	if e := f.execute(t, id, job.Succeeded, code("x")); e.Value.Repr != "7" {
		t.Errorf("x = %+v", e.Value)
	}
	// What does not give way is killed, and says so.
	e := f.execute(t, id, job.TimedOut, api.ExecuteRequest{
		Code: "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", Wall: job.Duration(300 * time.Millisecond)})
	if e.Alive {
		t.Error("it gave way?")
	}
}

func sessionCallbacks(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{Functions: []string{"llm_query"}, Policy: json.RawMessage(`{"callbacks": {"allow": ["llm_query"], "max_calls": 20}}`)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = f.api.AnswerCalls(ctx, id, map[string]client.HostFunction{"llm_query": func(_ context.Context, c job.HostCall) (any, error) {
			var args []string
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, err
			}
			return strings.ToUpper(args[0]), nil
		}})
	}()
	e := f.execute(t, id, job.Succeeded, code("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(10) as p: r = list(p.map(llm_query, 'abcdefghij'))\n''.join(r)"))
	if e.Value == nil || e.Value.Repr != "'ABCDEFGHIJ'" || e.Calls != 10 {
		t.Errorf("batched: %+v", e.Value)
	}
	if e = f.execute(t, id, job.Exception, code("for _ in range(11): llm_query('x')")); !strings.Contains(e.Exception.Message, "budget") {
		t.Errorf("above the budget: %+v", e.Exception)
	}
}

func sessionHostile(t *testing.T, f *fleet) {
	for attack, want := range map[string]job.Outcome{
		"import os, time\nos.write(5, b'\\xff' * 100000)\ntime.sleep(60)": job.PolicyViolation,
		"import os, time\nos.close(5)\nos._exit(3)":                       job.Failed,
		"x = b'x' * (1 << 30)":                                            job.OutOfMemory,
		"import ctypes; ctypes.string_at(0)":                              job.Signaled,
	} {
		id := f.session(t, job.SessionSpec{})
		other := f.session(t, job.SessionSpec{})
		if e := f.execute(t, id, want, code(attack)); e.Alive || e.Message == "" {
			t.Errorf("%q: %+v", attack, e)
		}
		f.execute(t, other, job.Succeeded, code("1"))
	}
}

func sessionShell(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{Kind: job.SessionShell})
	f.execute(t, id, job.Succeeded, code("cd /tmp; export A=5; echo hi > f"))
	if e := f.execute(t, id, job.Succeeded, code("pwd; echo $A; cat f")); e.Stdout.Text != "/tmp\n5\nhi\n" {
		t.Errorf("stdout = %q", e.Stdout.Text)
	}
	if e := f.execute(t, id, job.Failed, code("exit 3")); e.ExitCode == nil || *e.ExitCode != 3 {
		t.Errorf("exit code %v", e.ExitCode)
	}
}

func sessionIdle(t *testing.T, f *fleet) {
	id := f.session(t, job.SessionSpec{IdleTimeout: job.Duration(time.Second)})
	deadline := time.Now().Add(20 * time.Second)
	for {
		s, err := f.api.Session(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if s.State == job.SessionEnded {
			if s.Outcome != job.Expired {
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
