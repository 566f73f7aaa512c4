package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/session"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// A client's trace continues in the job's row.
func TestTraceGoesOn(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	f := newFleet(t)
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	var a api.Accepted
	f.want(http.StatusCreated, &a, "POST", "/v1/jobs", python("a"), "traceparent", "00-"+id+"-00f067aa0ba902b7-01")
	var j job.Job
	f.want(http.StatusOK, &j, "GET", a.URL, "")
	if j.TraceID != id {
		t.Errorf("the job's trace is %q", j.TraceID)
	}
	var p api.ProblemDetails
	f.want(http.StatusUnprocessableEntity, &p, "POST", "/v1/jobs", "{}", "traceparent", "00-"+id+"-00f067aa0ba902b7-01")
	if p.Instance != id {
		t.Errorf("the problem names the trace %q", p.Instance)
	}
	f.want(http.StatusCreated, &a, "POST", "/v1/jobs", python("a")) // the trace begins here
	f.want(http.StatusOK, &j, "GET", a.URL, "")
	if len(j.TraceID) != 32 || j.TraceID == id {
		t.Errorf("the job's trace is %q", j.TraceID)
	}
	names := map[string]bool{}
	for _, s := range spans.Ended() {
		names[s.Name()] = true
	}
	if !names["POST /v1/jobs"] || !names["GET /v1/jobs/{id}"] {
		t.Errorf("spans %v", names)
	}
}

// At shutdown, waiting requests return at once.
func TestShutdownEndsWaiting(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	b, err := f.client().SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(1)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := httpapi.NewHTTPServer(httpapi.New((&parts{Dispatcher: f.runner, Store: f.store, Config: httpapi.Config{Objects: f.objects, Canceler: f.runner, Queue: f.runner, Auth: identity.Open{}}}).wired()))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	answers := make(chan string, 2)
	for _, path := range []string{"?wait=5m", "/events"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+l.Addr().String()+"/v1/batches/"+string(b.ID)+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			resp, err := transport.RoundTrip(req)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			answers <- resp.Status + string(raw) + errorText(err)
		}()
	}
	f.until("both wait", func() bool { return f.runner.watching(b.ID) == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := testenv.Receive(t, "the end of serving", served); !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	for range 2 {
		if got := testenv.Receive(t, "an answer", answers); !strings.HasPrefix(got, "200 OK") || !strings.Contains(got, `"queued":1`) {
			t.Errorf("answered %q", got)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return " error: " + err.Error()
}

// A wait may exceed the connection's deadlines, and reading a body leaves no deadline behind.
func TestBodyDeadlineDoesNotEndTheWait(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := python("hang")
	if _, err := io.WriteString(conn, "POST /v1/run?wait=1500ms HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"10\r\n"+body[:16]+"\r\n"); err != nil {
		t.Fatal(err)
	}
	rest := body[16:]
	if _, err := io.WriteString(conn, hex(len(rest))+"\r\n"+rest+"\r\n0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusAccepted {
		t.Errorf("got %v, %v", resp, err)
	}
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hex(n/16) + digits[n%16:n%16+1]
}

// A disconnect ends the work for a client, and an incomplete request is not accepted.
func TestHalfABatchIsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.runner.hold()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	body := lines(3000)
	if _, err := io.WriteString(conn, "POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"+
		hex(len(body))+"\r\n"+body+"\r\n"); err != nil {
		t.Fatal(err)
	}
	conn.Close() // without the last chunk the body is incomplete
	f.until("the handler is done", func() bool {
		st, err := f.store.Stats(t.Context())
		return err == nil && st.Queued == 0
	})
	f.empty()
}

// A handler's panic becomes a 500 without details, and the server continues.
func TestPanic(t *testing.T) {
	t.Parallel()
	h := httpapi.New(httpapi.Config{Auth: panicking{}, Sessions: &session.Service{}, Log: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/workers", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") || w.Header().Get("Content-Type") != api.Problem {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type panicking struct{}

func (panicking) Identify(*http.Request) (identity.Identity, error) { panic("the secret reason") }
