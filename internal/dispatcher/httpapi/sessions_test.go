package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// late are workers that open sessions and whose responses get lost: the first one's at once, the later ones' after the
// client disconnects. A session must be closed twice: at the first attempt, the worker has not opened it yet.
type late struct {
	asked chan struct{}

	mu      sync.Mutex
	held    map[job.ID]string // sessions by id, with their workers
	opens   []string
	closing map[job.ID]int
	refused error // replaces the lost response

	register func(worker string) // adds the worker to the store
}

func (l *late) CallSession(ctx context.Context, worker string, c control.SessionCall) (control.SessionReply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch c.Op {
	case control.SessionOpen, control.SessionFork:
		id := c.Session
		if c.Op == control.SessionFork {
			id = c.Fork
		}
		if l.refused != nil {
			return control.SessionReply{}, l.refused
		}
		l.held[id], l.opens = worker, append(l.opens, worker)
		if len(l.opens) > 1 {
			l.mu.Unlock()
			l.asked <- struct{}{}
			<-ctx.Done()
			l.mu.Lock()
		}
		return control.SessionReply{}, fmt.Errorf("%w: nobody answered", job.ErrUnavailable)
	case control.SessionClose:
		if l.closing[c.Session]++; l.closing[c.Session] < 2 {
			return control.SessionReply{}, fmt.Errorf("%w: not here", job.ErrNotFound)
		}
		if l.held[c.Session] == worker && c.Tenant == "default" {
			delete(l.held, c.Session)
		}
	}
	return control.SessionReply{}, nil
}

func (l *late) OnWorkerEvent(context.Context, string, func(string, []byte)) error { return nil }

func (l *late) left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

func withLate(t *testing.T, workers ...string) (*fleet, *late) {
	t.Helper()
	l := &late{asked: make(chan struct{}, 9), held: map[job.ID]string{}, closing: map[job.ID]int{}}
	f := newFleet(t, func(c *parts) { c.Line = l })
	host, err := json.Marshal(map[string]any{"isolations": []string{"cell"}})
	if err != nil {
		t.Fatal(err)
	}
	l.register = func(w string) {
		if err := f.store.PutWorkers(t.Context(), []store.Worker{{ID: w, Pool: pool, Slots: 1, Host: host}}); err != nil {
			t.Error(err)
		}
	}
	for _, w := range workers {
		l.register(w)
	}
	return f, l
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// A session may exist although the response to its opening was lost. The dispatcher closes it, because its idle timeout
// may be a day.
func TestUnheardSessionsAreClosed(t *testing.T) {
	t.Parallel()
	f, l := withLate(t, "a", "b")
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "POST", f.url+"/v1/sessions", strings.NewReader(`{}`))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
			var resp *http.Response
			if resp, err = f.http.Do(req); err == nil {
				resp.Body.Close()
			}
		}
		gone <- err
	}()
	testenv.Receive(t, "a question to the second worker", l.asked) // the second worker: the first does not respond
	hangUp()
	if err := testenv.Receive(t, "the end of the request", gone); err == nil {
		t.Error("the client that hung up got an answer")
	}
	eventually(t, "both sessions are closed", func() bool { return l.left() == 0 })
	eventually(t, "nothing is recorded", func() bool {
		live, err := f.store.ListSessions(t.Context(), "", false, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(live) == 0
	})
}

// A session that a worker refused does not exist, so no worker is asked to close it. A fork with a lost response is
// closed like any session.
func TestRefusedSessionsAreNotClosed(t *testing.T) {
	t.Parallel()
	f, l := withLate(t, "a")
	parent := job.Session{ID: job.NewID(), State: job.SessionLive, Worker: "a", CreatedAt: time.Now().UTC(),
		Spec: job.SessionSpec{Kind: job.SessionPython, Policy: json.RawMessage(`{}`)}}
	if err := f.store.PutSession(t.Context(), "default", parent, 0); err != nil {
		t.Fatal(err)
	}
	l.refused = fmt.Errorf("%w: no", job.ErrTooMany)
	f.want(http.StatusTooManyRequests, nil, "POST", "/v1/sessions", `{}`)
	l.refused = fmt.Errorf("%w: no", job.ErrRefused)
	f.want(http.StatusForbidden, nil, "POST", "/v1/sessions", `{}`)
	l.refused = nil
	f.want(http.StatusServiceUnavailable, nil, "POST", "/v1/sessions/"+string(parent.ID)+"/fork", ``)
	eventually(t, "the copy is closed", func() bool { return l.left() == 0 })
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.closing) != 1 {
		t.Errorf("asked to close %v", l.closing)
	}
}

// When the only worker has just gone, opening a session is unavailable: clients retry and succeed with the next worker.
func TestSessionsOfWorkersThatAreGoneAreUnavailable(t *testing.T) {
	t.Parallel()
	f, l := withLate(t, "a")
	l.refused = fmt.Errorf("%w: worker a is gone", job.ErrLost)
	f.want(http.StatusServiceUnavailable, nil, "POST", "/v1/sessions", `{}`)
}

// A worker that connects during a request gets the session, although the fleet had no worker when it was read.
func TestSessionsWaitForAWorkerThatComes(t *testing.T) {
	t.Parallel()
	f, l := withLate(t)
	f.want(http.StatusServiceUnavailable, nil, "POST", "/v1/sessions", `{}`)
	l.refused = fmt.Errorf("%w: the worker was asked", job.ErrRefused)
	go func() {
		time.Sleep(100 * time.Millisecond)
		l.register("a")
	}()
	f.want(http.StatusForbidden, nil, "POST", "/v1/sessions", `{}`)
}

// Operations on an ended session return a conflict that names the reason. On 5ee7338 the error was about a reused
// idempotency key.
func TestEndedSessionsAreConflicts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *parts) { c.Line = &holders{} })
	v := job.Session{ID: job.NewID(), State: job.SessionLive, Worker: "w", CreatedAt: time.Now(), Spec: job.SessionSpec{Kind: job.SessionPython}}
	if err := f.store.PutSession(t.Context(), "default", v, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.EndSession(t.Context(), v.ID, "w", job.TimedOut, "it was idle for 10m"); err != nil {
		t.Fatal(err)
	}
	at := "/v1/sessions/" + string(v.ID)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/execute", `{"code":"1"}`}, {"POST", "/fork", ""}, {"POST", "/interrupt", ""}, {"POST", "/reset", ""}, {"POST", "/keepalive", ""},
		{"PUT", "/context", "1"}, {"GET", "/variables", ""}, {"GET", "/variables/x", ""}, {"PUT", "/variables/x", "1"}, {"PUT", "/functions", `{"functions":[]}`},
		{"GET", "/events", ""}, {"POST", "/answers", `{"call":1,"value":1}`}, {"GET", "/files/workspace/x", ""}, {"PUT", "/files/workspace/x", "x"},
	} {
		resp, body := f.do(c.method, at+c.path, c.body, "Content-Type", map[bool]string{true: "application/octet-stream", false: "application/json"}[strings.Contains(c.path, "/files/")])
		var p struct{ Type, Title, Detail string }
		if err := json.Unmarshal([]byte(body), &p); err != nil || resp.StatusCode != http.StatusConflict || p.Title != "Not in this state" || !strings.Contains(p.Detail, "has ended (timed_out)") {
			t.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, body)
		}
	}
	// Values are validated before a worker is called.
	for body, want := range map[string]string{`{"a":1,"a":2}`: "body.a", strings.Repeat("7", 5000): "body"} {
		resp, text := f.do("PUT", at+"/variables/x", body)
		checkProblem(t, resp, text, 422, want, 0)
	}
	resp, text := f.do("PUT", at+"/functions", `{"functions":null}`)
	checkProblem(t, resp, text, 422, "functions", 0)
}

// Both names of the route list executions by page, each in its own field.
func TestExecutions(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	v := job.Session{ID: job.NewID(), State: job.SessionLive, Worker: "w", CreatedAt: time.Now(), Spec: job.SessionSpec{Kind: job.SessionPython}}
	if err := f.store.PutSession(t.Context(), "default", v, 0); err != nil {
		t.Fatal(err)
	}
	var ids []job.ID
	for _, code := range []string{"x = 1", "x"} {
		e := job.Execute{ID: job.NewID(), SessionID: v.ID, Outcome: job.Succeeded, Alive: true}
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.store.PutExecute(t.Context(), store.Executed{Session: v.ID, ID: e.ID, Code: code, Result: raw}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	var counted map[string]any
	f.want(http.StatusOK, &counted, "GET", "/v1/sessions/"+string(v.ID), "")
	if counted["executions"] != 2.0 {
		t.Errorf("a session with two executions: %v", counted)
	}
	at := "/v1/sessions/" + string(v.ID) + "/executions"
	for query, want := range map[string][]job.ID{"": ids, "?limit=1": ids[:1], "?after=" + string(ids[0]): ids[1:], "?after=" + string(ids[1]): {}} {
		resp, body := f.do("GET", at+query, "")
		var list map[string][]store.Executed
		if err := json.Unmarshal([]byte(body), &list); err != nil || resp.StatusCode != http.StatusOK || len(list) != 1 || list["executions"] == nil {
			t.Errorf("%s: %d %v %s", query, resp.StatusCode, err, body)
		}
		got := []job.ID{}
		for _, e := range list["executions"] {
			got = append(got, e.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	resp, body := f.do("GET", at+"?after=x", "")
	checkProblem(t, resp, body, 422, "after", 0)
	resp, body = f.do("GET", "/v1/sessions/"+string(job.NewID())+"/executions", "")
	checkProblem(t, resp, body, 404, "", 0)
}
