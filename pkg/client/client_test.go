package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = job.ID("01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b88")

// said is a request that the server received.
type said struct {
	mu     sync.Mutex
	keys   []string
	bodies []string
	header []http.Header
}

func (s *said) hear(r *http.Request) int {
	raw, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, r.Header.Get(api.HeaderIdempotencyKey))
	s.bodies = append(s.bodies, string(raw))
	s.header = append(s.header, r.Header)
	return len(s.keys)
}

// calls is how often the server was asked.
func (s *said) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// fleet answers every request with h.
func fleet(t *testing.T, h http.HandlerFunc, o ...client.Option) *client.Client {
	t.Helper()
	// Batches have no lease here, so that no renewals come beside the tested requests.
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/keepalive") {
			answer(w, http.StatusOK, job.Batch{ID: id})
			return
		}
		h(w, r)
	}))
	transport := &http.Transport{}
	t.Cleanup(func() { transport.CloseIdleConnections(); srv.Close() })
	c, err := client.New(srv.URL+"/", append([]client.Option{client.WithHTTPClient(&http.Client{Transport: transport})}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", api.JSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// hangUp breaks the connection after the request arrived: the server executed it, but the client gets no
// answer.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// An unknown outcome is resolved by saying the same under the same key.
func TestUnknownIsSaidAgain(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(http.ResponseWriter){
		"hung up":     hangUp,
		"unavailable": func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"bad gateway": func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s said
			c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
				if s.hear(r) < 3 {
					fail(w)
					return
				}
				answer(w, http.StatusCreated, job.Batch{ID: id, Total: 1})
			})
			b, err := c.SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader("{}\n"))
			if _, err := c.Submit(t.Context(), job.Spec{}); err != nil {
				t.Error(err)
			}
			if err != nil || b.ID != id {
				t.Fatal(b, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.keys[0] == "" || s.keys[0] != s.keys[2] || s.keys[3] == s.keys[0] || s.bodies[0] != "{}\n" || s.bodies[2] != "{}\n" {
				t.Errorf("keys %v, bodies %q", s.keys, s.bodies)
			}
		})
	}
}

// TestNotSaidAgain checks that a request is not sent again if the server has rejected it, or if its body
// cannot be repeated.
func TestNotSaidAgain(t *testing.T) {
	t.Parallel()
	var s said
	c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
		s.hear(r)
		if strings.HasSuffix(r.URL.Path, "batches") {
			hangUp(w)
		}
		p := api.NewProblem(&job.FieldError{Field: "policy.memory", Problem: "is too small", Line: 3})
		w.Header().Set("Content-Type", api.Problem)
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p)
	})
	_, err := c.Submit(t.Context(), job.Spec{})
	var f *job.FieldError
	if !errors.Is(err, job.ErrInvalid) || !errors.As(err, &f) || f.Field != "policy.memory" || f.Line != 3 || s.calls() != 1 {
		t.Errorf("%v after %d calls", err, s.calls())
	}
	stream := io.MultiReader(strings.NewReader("{}\n"))
	if _, err := c.SubmitBatch(t.Context(), client.BatchOptions{}, stream); !errors.Is(err, job.ErrUnavailable) || s.calls() != 2 {
		t.Errorf("a stream: %v after %d calls", err, s.calls())
	}
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	c, err := client.New("http://127.0.0.1:1", client.WithPatience(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := c.Workers(t.Context()); !errors.Is(err, job.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1 does not answer") {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d < 150*time.Millisecond || d > 10*time.Second {
		t.Errorf("after %s", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Workers(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// The time that a server was asked to wait is not taken from a client's patience.
func TestPatienceBeginsWithTheFailure(t *testing.T) {
	t.Parallel()
	n := 0
	c := fleet(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			time.Sleep(400 * time.Millisecond)
			answer(w, http.StatusServiceUnavailable, nil)
			return
		}
		answer(w, http.StatusOK, job.Batch{ID: id})
	}, client.WithPatience(300*time.Millisecond))
	if b, err := c.Batch(t.Context(), id, time.Second); err != nil || b.ID != id {
		t.Errorf("%+v, %v after %d calls", b, err, n)
	}
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "localhost:8080", "ftp://x", "http://", "://"} {
		if _, err := client.New(u); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%q: %v", u, err)
		}
	}
}

// A run that outlasts the server's patience is followed to its end.
func TestRunFollowsItsJob(t *testing.T) {
	t.Parallel()
	n := 0
	c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
		switch n++; {
		case r.URL.Path == "/v1/run":
			answer(w, http.StatusAccepted, api.Accepted{ID: id, State: job.Queued})
		case r.URL.Path == "/v1/jobs/"+string(id)+"/result" && n == 2:
			answer(w, http.StatusNotFound, nil)
		case r.URL.Path == "/v1/jobs/"+string(id):
			answer(w, http.StatusOK, job.Job{ID: id, State: job.Running})
		default:
			answer(w, http.StatusOK, job.Result{ID: id, Outcome: job.TimedOut})
		}
	})
	r, err := c.Run(t.Context(), job.Spec{})
	if err != nil || r.Outcome != job.TimedOut || n != 4 {
		t.Errorf("%+v, %v after %d calls", r, err, n)
	}
}

// TestRunFieldsFollowsItsJob checks that requested fields of a run select from its result, however late the
// result is.
func TestRunFieldsFollowsItsJob(t *testing.T) {
	t.Parallel()
	var asked []string
	c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.URL.Query().Get("fields"))
		if r.URL.Path == "/v1/run" {
			answer(w, http.StatusAccepted, api.Accepted{ID: id, State: job.Queued})
			return
		}
		answer(w, http.StatusOK, map[string]string{"outcome": "failed"})
	})
	raw, err := c.RunFields(t.Context(), job.Spec{}, "id", "outcome")
	want := []string{"/v1/run id,outcome", "/v1/jobs/" + string(id) + "/result id,outcome"}
	if err != nil || string(raw) != `{"outcome":"failed"}` || !slices.Equal(asked, want) {
		t.Errorf("%s, %v; asked for %q, want %q", raw, err, asked, want)
	}
}

// A page that breaks off is asked for again, whole: nothing lost, nothing twice.
func TestBrokenPage(t *testing.T) {
	t.Parallel()
	n := 0
	c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		after := r.URL.Query().Get("after")
		w.Header().Set(api.HeaderCursor, map[string]string{"0": "2", "2": "3"}[after])
		w.Header().Set(api.HeaderComplete, fmt.Sprint(after == "2"))
		switch {
		case after == "0" && n == 1:
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"id":"a"}`+"\n")
			hangUp(w)
		case after == "0" && n == 2: // whole for HTTP, cut for us
			_, _ = io.WriteString(w, `{"id":"a"}`+"\n"+`{"id":`)
		case after == "0":
			_, _ = io.WriteString(w, `{"id":"a"}`+"\n"+`{"id":"b"}`+"\n")
		default:
			_, _ = io.WriteString(w, `{"id":"c"}`+"\n")
		}
	})
	var got []string
	for raw, err := range c.Results(t.Context(), id, true) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(raw))
	}
	if want := []string{`{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`}; !slices.Equal(got, want) || n != 4 {
		t.Errorf("got %v after %d calls", got, n)
	}
}

// An event stream that breaks is made anew.
func TestBrokenEvents(t *testing.T) {
	t.Parallel()
	n := 0
	c := fleet(t, func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.Header().Set("Content-Type", "text/event-stream")
		kind := "batch"
		if n == 3 {
			kind = "done"
		}
		_, _ = fmt.Fprintf(w, ": alive\n\nevent: %s\ndata: {\"id\":%q,\"total\":%d}\n\n", kind, id, n)
	})
	var got []int64
	for b, err := range c.Progress(t.Context(), id) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.Total)
	}
	if !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("got %v", got)
	}
}

// TestSpecs checks that a batch held in memory is sent again, and a stream is not.
func TestSpecs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ jobs, calls int }{"kept": {2, 2}, "streamed": {9, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s said
			c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
				if s.hear(r) == 1 {
					hangUp(w)
				}
				answer(w, http.StatusCreated, job.Batch{ID: id})
			})
			spec := job.Spec{Name: strings.Repeat("x", 1<<20)}
			_, err := c.SubmitSpecs(t.Context(), client.BatchOptions{}, slices.Values(slices.Repeat([]job.Spec{spec}, tc.jobs)))
			if again := tc.calls > 1; (err == nil) != again || s.calls() != tc.calls {
				t.Fatalf("%v after %d calls", err, s.calls())
			}
			last := s.bodies[len(s.bodies)-1]
			if strings.Count(last, "\n") != tc.jobs || strings.Count(last, spec.Name) != tc.jobs || s.header[0].Get("Content-Type") != api.NDJSON {
				t.Errorf("sent %d bytes, %v", len(last), s.header[0])
			}
		})
	}
}

func TestTokenAndForeignAnswers(t *testing.T) {
	t.Parallel()
	var s said
	c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
		s.hear(r)
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "<html>")
	}, client.WithToken("secret"))
	if _, err := c.Workers(t.Context()); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("got %v", err)
	}
	if got := s.header[0].Get("Authorization"); got != "Bearer secret" {
		t.Errorf("sent %q", got)
	}
}

// TestLargeBodyIsSentWhole checks that each attempt sends the body from its beginning, one attempt at a time,
// whatever an earlier attempt left in the reader.
func TestLargeBodyIsSentWhole(t *testing.T) {
	t.Parallel()
	var s said
	body := strings.Repeat("x", 8<<20)
	c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
		if s.calls() < 2 {
			s.hear(&http.Request{Body: http.NoBody, Header: r.Header})
			_, _ = io.ReadFull(r.Body, make([]byte, 1<<20))
			hangUp(w) // in the middle of the body
		}
		s.hear(r)
		answer(w, http.StatusCreated, job.Batch{ID: id})
	})
	if _, err := c.SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) != 3 || s.bodies[2] != body {
		t.Errorf("%d calls, the last with %d bytes", len(s.bodies), len(s.bodies[len(s.bodies)-1]))
	}
}
