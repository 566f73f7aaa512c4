package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// hosts is a worker that counts calls and responds when a test lets it.
type hosts struct {
	mu      sync.Mutex
	opened  map[job.ID]bool
	ran     []job.ID
	last    job.ID        // the last requested execution
	refused error         // replaces the next response
	began   chan job.ID   // nil: not observed
	goOn    chan struct{} // nil: respond at once
}

func (h *hosts) CallSession(ctx context.Context, _ string, c control.SessionCall) (control.SessionReply, error) {
	h.mu.Lock()
	refused := h.refused
	h.refused, h.last = nil, c.Execute
	began, goOn := h.began, h.goOn
	h.mu.Unlock()
	if refused != nil {
		return control.SessionReply{}, refused
	}
	if began != nil && c.Op != control.SessionClose {
		began <- c.Execute
		select {
		case <-goOn:
		case <-ctx.Done():
			return control.SessionReply{}, fmt.Errorf("%w: %w", job.ErrUnavailable, ctx.Err())
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch c.Op {
	case control.SessionOpen:
		h.opened[c.Session] = true
	case control.SessionFork:
		h.opened[c.Fork] = true
	case control.SessionClose:
		delete(h.opened, c.Session)
	case control.SessionExecute:
		h.ran = append(h.ran, c.Execute)
		return control.SessionReply{Execute: &job.Execute{ID: c.Execute, Outcome: job.Succeeded, Alive: true}}, nil
	}
	return control.SessionReply{}, nil
}

func (h *hosts) OnWorkerEvent(context.Context, string, func(string, []byte)) error { return nil }

func (h *hosts) made() (sessions, executions int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.opened), len(h.ran)
}

// slow makes the worker wait before it responds.
func (h *hosts) slow() (began chan job.ID, goOn chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began, h.goOn = make(chan job.ID, 9), make(chan struct{})
	return h.began, h.goOn
}

func (h *hosts) refuse(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = err
}

func withHosts(t *testing.T) (*fleet, *hosts) {
	t.Helper()
	h := &hosts{opened: map[job.ID]bool{}}
	f := newFleet(t, func(c *parts) { c.Line = h })
	host, err := json.Marshal(map[string]any{"isolations": []string{"cell"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.PutWorkers(t.Context(), []store.Worker{{ID: "w", Pool: pool, Slots: 1, Host: host}}); err != nil {
		t.Fatal(err)
	}
	return f, h
}

// said sends a request under a key. It returns the id in the response, and whether the response was replayed.
func (f *fleet) said(t *testing.T, want int, path, body, key string) (id job.ID, replayed bool, text string) {
	t.Helper()
	resp, text := f.do("POST", path, body, api.HeaderIdempotencyKey, key)
	var made struct{ ID job.ID }
	if err := json.Unmarshal([]byte(text), &made); err != nil || resp.StatusCode != want {
		t.Fatalf("%s under %s: %d %s, want %d", path, key, resp.StatusCode, text, want)
	}
	return made.ID, resp.Header.Get(api.HeaderReplayed) == "true", text
}

func TestSessionsUnderAKeyAreOne(t *testing.T) {
	t.Parallel()
	f, h := withHosts(t)
	first, replayed, _ := f.said(t, 201, "/v1/sessions", `{}`, "a")
	again, replayedThen, _ := f.said(t, 201, "/v1/sessions", `{}`, "a")
	if first != again || replayed || !replayedThen {
		t.Errorf("%s (%v), then %s (%v)", first, replayed, again, replayedThen)
	}
	resp, text := f.do("POST", "/v1/sessions", `{"name":"x"}`, api.HeaderIdempotencyKey, "a")
	checkProblem(t, resp, text, 422, "", 0)
	at := "/v1/sessions/" + string(first)
	fork, _, _ := f.said(t, 201, at+"/fork", ``, "b")
	if again, replayed, _ := f.said(t, 201, at+"/fork", ``, "b"); again != fork || !replayed {
		t.Errorf("copied as %s, then as %s", fork, again)
	}
	if n, _ := h.made(); n != 2 {
		t.Errorf("%d sessions were made, want one and its copy", n)
	}
	// A replay for an ended session returns its end state.
	if _, err := f.store.EndSession(t.Context(), first, "w", job.TimedOut, "idle"); err != nil {
		t.Fatal(err)
	}
	if id, _, text := f.said(t, 201, "/v1/sessions", `{}`, "a"); id != first || !strings.Contains(text, `"ended"`) {
		t.Errorf("when it has ended: %s", text)
	}
	if other, replayed, _ := f.said(t, 201, "/v1/sessions", `{}`, "c"); other == first || replayed {
		t.Error("another key has the same session")
	}
}

func TestSessionsUnderAKeyAtOnceAreOne(t *testing.T) {
	t.Parallel()
	f, h := withHosts(t)
	began, goOn := h.slow()
	ids := make(chan job.ID, 5)
	for range cap(ids) {
		go func() {
			resp, text := f.do("POST", "/v1/sessions", `{}`, api.HeaderIdempotencyKey, "a")
			var v job.Session
			if err := json.Unmarshal([]byte(text), &v); err != nil || resp.StatusCode != http.StatusCreated {
				t.Errorf("%d %s", resp.StatusCode, text)
			}
			ids <- v.ID
		}()
	}
	testenv.Receive(t, "the first request at the worker", began)
	close(goOn)
	seen := map[job.ID]bool{}
	for range cap(ids) {
		seen[testenv.Receive(t, "an answer", ids)] = true
	}
	if n, _ := h.made(); n != 1 || len(seen) != 1 {
		t.Errorf("%d sessions were made, and the answers have %v", n, seen)
	}
}

// The key of a session that did not open is free for the next request. So is the key of a dispatcher that died.
func TestKeysOfSessionsThatNeverWere(t *testing.T) {
	t.Parallel()
	f, h := withHosts(t)
	h.refuse(fmt.Errorf("%w: no", job.ErrRefused))
	f.said(t, 403, "/v1/sessions", `{}`, "a")
	f.said(t, 201, "/v1/sessions", `{}`, "a")
	f.said(t, 422, "/v1/sessions", `{"kind":"x"}`, "b")
	f.said(t, 201, "/v1/sessions", `{}`, "b")

	// The dispatcher of this one died before it reported that the session is open.
	first := f.left(t, "c", `{}`)
	h.mu.Lock()
	h.opened[first] = true
	h.mu.Unlock()
	second, replayed, _ := f.said(t, 201, "/v1/sessions", `{}`, "c")
	if second == first || replayed {
		t.Errorf("%s (%v) after %s", second, replayed, first)
	}
	eventually(t, "the session that nobody heard of is closed", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return !h.opened[first] })
	f.want(http.StatusNotFound, nil, "GET", "/v1/sessions/"+string(first), "")
	if again, _, _ := f.said(t, 201, "/v1/sessions", `{}`, "c"); again != second {
		t.Errorf("then %s, want %s", again, second)
	}
}

// left leaves a session in an unknown state: a dispatcher that died claimed a key for it and called worker w.
func (f *fleet) left(t *testing.T, name, body string) job.ID {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", f.url+"/v1/sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(api.HeaderIdempotencyKey, name)
	req.Header.Set("Content-Type", api.JSON)
	key, err := web.Idempotency(req, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	v := job.Session{ID: job.NewID(), State: job.SessionLive, Worker: "w", CreatedAt: time.Now(), Spec: job.SessionSpec{Kind: job.SessionPython}}
	if _, err := f.store.ClaimKey(t.Context(), "default", key, v.ID, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.store.PutSession(t.Context(), "default", v, 0); err != nil {
		t.Fatal(err)
	}
	return v.ID
}

func TestExecutionsUnderAKeyRunOnce(t *testing.T) {
	t.Parallel()
	f, h := withHosts(t)
	id, _, _ := f.said(t, 201, "/v1/sessions", `{}`, "s")
	at := "/v1/sessions/" + string(id) + "/execute"
	first, _, _ := f.said(t, 200, at, `{"code":"1"}`, "a")
	again, replayed, _ := f.said(t, 200, at, `{"code":"1"}`, "a")
	if first != again || !replayed {
		t.Errorf("%s, then %s (%v)", first, again, replayed)
	}
	resp, text := f.do("POST", at, `{"code":"2"}`, api.HeaderIdempotencyKey, "a")
	checkProblem(t, resp, text, 422, "", 0)
	// An execution that never ran may be requested again.
	h.refuse(fmt.Errorf("%w: later", job.ErrTooMany))
	f.said(t, 429, at, `{"code":"3"}`, "b")
	f.said(t, 422, at, `{}`, "c")
	f.said(t, 200, at, `{"code":"3"}`, "b")
	f.said(t, 200, at, `{"code":"3"}`, "c")
	if _, n := h.made(); n != 3 {
		t.Errorf("%d executions, want 3", n)
	}
	// The record outlives the session.
	if _, err := f.store.EndSession(t.Context(), id, "w", job.Succeeded, "closed"); err != nil {
		t.Fatal(err)
	}
	if again, _, _ := f.said(t, 200, at, `{"code":"1"}`, "a"); again != first {
		t.Errorf("after the end: %s, want %s", again, first)
	}
}

// A client that disconnects and retries waits for the same execution and gets its result.
func TestExecutionsUnderAKeyOutliveTheConnection(t *testing.T) {
	t.Parallel()
	f, h := withHosts(t)
	id, _, _ := f.said(t, 201, "/v1/sessions", `{}`, "s")
	at := "/v1/sessions/" + string(id) + "/execute"
	began, goOn := h.slow()
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "POST", f.url+at, strings.NewReader(`{"code":"1"}`))
		if err == nil {
			req.Header.Set(api.HeaderIdempotencyKey, "a")
			req.Header.Set("Content-Type", api.JSON)
			var resp *http.Response
			if resp, err = f.http.Do(req); err == nil {
				resp.Body.Close()
			}
		}
		gone <- err
	}()
	first := testenv.Receive(t, "the execution", began)
	hangUp()
	if err := testenv.Receive(t, "the end of the request", gone); err == nil {
		t.Error("the client that hung up got an answer")
	}
	answers := make(chan string, 1)
	go func() {
		_, text := f.do("POST", at, `{"code":"1"}`, api.HeaderIdempotencyKey, "a")
		answers <- text
	}()
	select {
	case early := <-answers:
		t.Errorf("answered while it runs: %s", early)
	case <-time.After(200 * time.Millisecond):
	}
	close(goOn)
	if text := testenv.Receive(t, "the answer", answers); !strings.Contains(text, string(first)) {
		t.Errorf("it got %s, want %s", text, first)
	}
	if _, n := h.made(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// For an execution that began and has no record, the response claims neither that it ran nor that it did not. It does
// not run again.
func TestExecutionsOfWhichNothingIsKnown(t *testing.T) {
	t.Parallel()
	f, h := withHosts(t)
	id, _, _ := f.said(t, 201, "/v1/sessions", `{}`, "s")
	at := "/v1/sessions/" + string(id) + "/execute"
	h.refuse(fmt.Errorf("%w: nobody answered", job.ErrUnavailable))
	f.said(t, 503, at, `{"code":"1"}`, "a")
	if held, err := f.store.HoldKey(t.Context(), "default", "a", h.last, 0); err != nil || !held {
		t.Fatalf("its claim: %v, %v", held, err)
	}
	resp, text := f.do("POST", at, `{"code":"1"}`, api.HeaderIdempotencyKey, "a")
	checkProblem(t, resp, text, 409, "", 0)
	if !strings.Contains(text, "it may have run") {
		t.Errorf("said %s", text)
	}
	if _, n := h.made(); n != 0 {
		t.Errorf("it ran %d times", n)
	}
}
