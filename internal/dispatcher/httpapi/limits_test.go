package httpapi_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// crowded returns a fleet with the tenants mean and kind and narrow limits.
func crowded(t *testing.T, l httpapi.Limits, change ...func(*parts)) *fleet {
	t.Helper()
	auth, err := identity.ReadTokens("of-mean=mean,of-kind=kind,of-full=full")
	if err != nil {
		t.Fatal(err)
	}
	return newFleet(t, append(change, func(c *parts) { c.Auth, c.Limits = auth, l })...)
}

// endless yields the same bytes for ever and counts them.
type endless struct {
	line string
	n    atomic.Int64
	most int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n.Load() >= e.most {
		return 0, io.EOF
	}
	n := 0
	for n+len(e.line) <= len(p) {
		n += copy(p[n:], e.line)
	}
	e.n.Add(int64(n))
	return n, nil
}

// send sends a body without a length.
func (f *fleet) send(token, method, path string, body io.Reader, header ...string) (int, api.ProblemDetails) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	var p api.ProblemDetails
	_ = json.NewDecoder(resp.Body).Decode(&p)
	return resp.StatusCode, p
}

// A body with a key and without a digest is spooled to disk first. On 5ee7338 the spool had no limit, and 100 MB sent
// became 100 GB.
func TestSpoolIsBounded(t *testing.T) {
	t.Parallel()
	const spool = 16 << 20
	f := crowded(t, httpapi.Limits{Spool: spool, Batch: 64 << 20})
	bomb := func() (io.Reader, *endless) {
		source := &endless{line: "\n", most: 256 << 20}
		r, w := io.Pipe()
		t.Cleanup(func() { _ = r.Close() })
		go func() {
			z := gzip.NewWriter(w)
			_, err := io.Copy(z, source)
			_ = w.CloseWithError(errorOr(err, z.Close()))
		}()
		return r, source
	}
	for name, header := range map[string][]string{
		"plain":   {},
		"gzipped": {"Content-Encoding", "gzip"},
	} {
		header = append(header, "Content-Type", api.NDJSON, api.HeaderIdempotencyKey, name)
		var body io.Reader = &endless{line: "\n", most: 256 << 20}
		if name == "gzipped" {
			body, _ = bomb()
		}
		if code, p := f.send("of-mean", "POST", "/v1/batches", body, header...); code != http.StatusTooManyRequests || !strings.Contains(p.Detail, "share") {
			t.Errorf("%s: %d %s", name, code, p.Detail)
		}
	}
	// A blob's digest is verified only at its end.
	digest := "sha256:" + strings.Repeat("0", 64)
	if code, p := f.send("of-mean", "PUT", "/v1/blobs/"+digest, &endless{line: "\x00", most: 256 << 20}); code != http.StatusTooManyRequests {
		t.Errorf("blob: %d %s", code, p.Detail)
	}
	bombed, _ := bomb()
	if code, p := f.send("of-mean", "PUT", "/v1/blobs/"+digest, bombed, "Content-Encoding", "gzip"); code != http.StatusTooManyRequests {
		t.Errorf("gzipped blob: %d %s", code, p.Detail)
	}
	// A body that is announced as too large is not read.
	resp, raw := f.do("PUT", "/v1/blobs/"+digest, "", "Authorization", "Bearer of-mean", "Content-Type", "application/octet-stream")
	if resp.StatusCode == http.StatusTooManyRequests {
		t.Errorf("the room did not come back: %s", raw)
	}
	// While a tenant holds half of it, the other tenant has room.
	hold, release := io.Pipe()
	held := make(chan struct{})
	go func() {
		defer close(held)
		_, _ = f.send("of-mean", "PUT", "/v1/blobs/"+digest, io.MultiReader(&endless{line: "\x00", most: spool/2 - 2<<20}, hold))
	}()
	defer func() { _ = release.Close(); <-held }()
	if code, p := f.send("of-kind", "POST", "/v1/batches", strings.NewReader(lines(3)), "Content-Type", api.NDJSON, api.HeaderIdempotencyKey, "k"); code != http.StatusCreated {
		t.Errorf("the other tenant: %d %s", code, p.Detail)
	}
}

func errorOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// A body without a key is read as it arrives. On 5ee7338 there was no limit.
func TestStreamedBatchHasAnEnd(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{Batch: 4 << 20})
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, _ = io.Copy(z, &endless{line: "\n", most: 64 << 20})
	_ = z.Close()
	for name, c := range map[string]struct {
		body   io.Reader
		header []string
	}{
		"plain":     {&endless{line: "\n", most: 64 << 20}, nil},
		"gzip bomb": {bytes.NewReader(small.Bytes()), []string{"Content-Encoding", "gzip"}},
		"digested":  {&endless{line: "\n", most: 64 << 20}, []string{api.HeaderContentDigest, "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:", api.HeaderIdempotencyKey, "d"}},
	} {
		code, p := f.send("of-mean", "POST", "/v1/batches", c.body, append(c.header, "Content-Type", api.NDJSON)...)
		if code != http.StatusRequestEntityTooLarge || !strings.Contains(p.Detail, "4Mi") {
			t.Errorf("%s: %d %s", name, code, p.Detail)
		}
	}
	f.empty()
}

// A tenant has many large bodies in memory at once, and another tenant's body is still read. On 5ee7338 their number
// had no limit.
func TestBodiesInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{Memory: 32 << 20})
	const large = 4 << 20
	junk := strings.Repeat("x", large)
	var stopped sync.WaitGroup
	hold, release := io.Pipe()
	defer func() { _ = release.Close(); stopped.Wait() }()
	var refused atomic.Int64
	for range 16 { // 64 MiB
		stopped.Go(func() {
			code, _ := f.send("of-mean", "POST", "/v1/batches", io.MultiReader(strings.NewReader(junk), hold), "Content-Type", api.JSON)
			if code == http.StatusTooManyRequests {
				refused.Add(1)
			}
		})
	}
	await(t, func() bool { return refused.Load() >= 12 })
	body := `{"jobs":[` + python("print(1)") + `],"name":"kind"}` + strings.Repeat(" ", large)
	if code, p := f.send("of-kind", "POST", "/v1/batches", strings.NewReader(body), "Content-Type", api.JSON); code != http.StatusCreated {
		t.Errorf("the other tenant: %d %s", code, p.Detail)
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it never came to that")
		}
	}
}

// An object with very many jobs is many times as large in memory.
func TestObjectsWithTooManyJobs(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{})
	body := `{"jobs":[{}` + strings.Repeat(",{}", 3_000_000) + `]}`
	code, p := f.send("of-mean", "POST", "/v1/batches", strings.NewReader(body), "Content-Type", api.JSON)
	if code != http.StatusRequestEntityTooLarge || len(p.Errors) != 1 || p.Errors[0].Field != "jobs" {
		t.Errorf("%d %+v", code, p)
	}
}

// One tenant has very many waiting requests, and another tenant is served. On 5ee7338 only the process's limits
// applied.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{Requests: 20})
	f.runner.hold()
	code, _ := f.send("of-mean", "POST", "/v1/batches", strings.NewReader(lines(1)), "Content-Type", api.NDJSON)
	bs, err := f.store.Batches(t.Context(), "mean", "", 1)
	if code != http.StatusCreated || err != nil || len(bs) != 1 {
		t.Fatal(code, bs, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer func() { leave(); waiting.Wait() }()
	var refused atomic.Int64
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i := range 60 {
		path := []string{"?wait=10m", "/events"}[i%2]
		waiting.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "GET", f.url+"/v1/batches/"+string(bs[0].ID)+path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer of-mean")
			resp, err := client.Do(req)
			if err != nil {
				return // the test has disconnected
			}
			defer resp.Body.Close()
			if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "" {
				refused.Add(1)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		})
	}
	await(t, func() bool { return refused.Load() >= 50 })
	for range 3 {
		if code, p := f.send("of-kind", "GET", "/v1/batches", nil); code != http.StatusOK {
			t.Errorf("the other tenant: %d %s", code, p.Detail)
		}
	}
	leave()
	await(t, func() bool { code, _ := f.send("of-mean", "GET", "/v1/batches", nil); return code == http.StatusOK })
}

// The number of waiting jobs of a tenant is limited by its ceiling or by the fleet's setting.
func TestQueuedJobsAreBounded(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{Queued: 8})
	f.runner.hold()
	err := f.store.PutTenant(t.Context(), store.Tenant{Name: "mean", Weight: 1, Ceiling: json.RawMessage(`{"queued":5}`)})
	if err != nil {
		t.Fatal(err)
	}
	submit := func(token string, n int) (int, api.ProblemDetails) {
		return f.send(token, "POST", "/v1/batches", strings.NewReader(lines(n)), "Content-Type", api.NDJSON)
	}
	refused := func(what string, code int, p api.ProblemDetails) {
		t.Helper()
		if code != http.StatusTooManyRequests || len(p.Errors) != 1 || p.Errors[0].Field != "jobs" {
			t.Errorf("%s: %d %+v", what, code, p)
		}
	}
	code, p := submit("of-mean", 6)
	refused("six at once", code, p)
	if code, p := submit("of-mean", 3); code != http.StatusCreated {
		t.Fatalf("three: %d %s", code, p.Detail)
	}
	code, p = submit("of-mean", 3)
	refused("three more", code, p)
	for range 2 {
		if code, p := f.send("of-mean", "POST", "/v1/jobs", strings.NewReader(python("ok")), "Content-Type", api.JSON); code != http.StatusCreated {
			t.Fatalf("single: %d %s", code, p.Detail)
		}
	}
	code, p = f.send("of-mean", "POST", "/v1/jobs", strings.NewReader(python("ok")), "Content-Type", api.JSON)
	refused("a sixth", code, p)
	code, p = f.send("of-mean", "POST", "/v1/run", strings.NewReader(python("ok")), "Content-Type", api.JSON)
	refused("a sixth to wait for", code, p)
	object := `{"jobs":[` + python("ok") + `,` + python("ok") + `]}`
	code, p = f.send("of-mean", "POST", "/v1/batches", strings.NewReader(object), "Content-Type", api.JSON)
	refused("an object", code, p)
	if code, p := submit("of-kind", 8); code != http.StatusCreated {
		t.Errorf("the other tenant: %d %s", code, p.Detail)
	}
	f.runner.release()
	await(t, func() bool { code, _ := submit("of-mean", 5); return code == http.StatusCreated })
}

// slowBodies has one route for each way of reading a body: whole, as lines, through the disk, and into the object
// store.
var slowBodies = map[string]string{
	"POST /v1/jobs":                    api.JSON,
	"POST /v1/run":                     api.JSON,
	"POST /v1/batches":                 api.JSON,
	"POST /v1/batches?name=lines":      api.NDJSON,
	"POST /v1/sessions":                api.JSON,
	"POST /v1/jobs/cancel":             api.JSON,
	"POST /v1/jobs/priority":           api.JSON,
	"PUT /v1/policies/p":               api.JSON,
	"PUT /v1/secrets/s":                api.JSON,
	"POST /v1/policies/explain":        api.JSON,
	"PUT /v1/blobs/sha256:" + noDigest: "application/octet-stream",
}

const noDigest = "0000000000000000000000000000000000000000000000000000000000000000"

// A body that the handler does not read must not delay the response: the server drains the body first. On f72b5e1 that
// could take for ever, even without a token.
func TestBodiesThatNobodyReadsAreCutOff(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{Patience: 300 * time.Millisecond})
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"no token":          {"POST /v1/jobs HTTP/1.1\r\nHost: x", 401},
		"no such address":   {"POST /v1/nowhere HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer of-mean", 404},
		"wrong method":      {"DELETE /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-mean", 405},
		"wrong media type":  {"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nAuthorization: Bearer of-mean", 422},
		"a GET with a body": {"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-mean", 200},
		"chunks, no token":  {"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked", 401},
		"a redirect":        {"POST /v1//jobs HTTP/1.1\r\nHost: x", 307},
		"an open address":   {"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Type: application/json", 405},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			length := "Content-Length: 1000\r\n"
			if strings.Contains(c.head, "chunked") {
				length = ""
			}
			fmt.Fprintf(conn, "%s\r\n%s\r\n1", c.head, length)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("answered %d, want %d", resp.StatusCode, c.status)
			}
		})
	}
}

// A body that stalls or arrives byte by byte is cut off. On 5ee7338 every byte bought another minute.
func TestSlowBodiesAreCutOff(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{Patience: 300 * time.Millisecond})
	for name, pause := range map[string]time.Duration{"stands still": time.Hour, "comes byte by byte": 50 * time.Millisecond} {
		for path, kind := range slowBodies {
			method, path, _ := strings.Cut(path, " ")
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-mean\r\nContent-Type: %s\r\nContent-Length: 100000\r\n\r\n{", method, path, kind)
				over := make(chan struct{})
				go func() {
					defer close(over)
					_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
					resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Errorf("no answer: %v", err)
						return
					}
					defer resp.Body.Close()
					var p api.ProblemDetails
					if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || resp.StatusCode != http.StatusRequestTimeout || len(p.Errors) != 1 || p.Errors[0].Field != "body" {
						t.Errorf("answered %d %+v %v", resp.StatusCode, p, err)
					}
				}()
				tick := time.NewTicker(pause)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
						_, _ = conn.Write([]byte(" "))
					case <-over:
						return
					}
				}
			})
		}
	}
}

// slow sends data at an acceptable pace, for longer than a body may stall.
type slow struct {
	rest []byte
	pace time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	time.Sleep(s.pace) // the pace under test
	n := copy(p, s.rest[:min(len(s.rest), 512)])
	s.rest = s.rest[n:]
	return n, nil
}

func TestSteadyBodiesAreNot(t *testing.T) {
	t.Parallel()
	f := crowded(t, httpapi.Limits{Patience: 400 * time.Millisecond})
	body := &slow{[]byte(lines(1) + strings.Repeat("\n", 8<<10)), 100 * time.Millisecond}
	if code, p := f.send("of-kind", "POST", "/v1/batches", body, "Content-Type", api.NDJSON); code != http.StatusCreated {
		t.Errorf("%d %s", code, p.Detail)
	}
}

// holders are workers that accept all sessions.
type holders struct{ calls atomic.Int64 }

func (h *holders) CallSession(_ context.Context, _ string, c control.SessionCall) (control.SessionReply, error) {
	h.calls.Add(1)
	if c.Tenant == "full" {
		return control.SessionReply{}, fmt.Errorf("%w: sessions: this tenant has its share", job.ErrTooMany)
	}
	return control.SessionReply{}, nil
}

func (h *holders) OnWorkerEvent(context.Context, string, func(string, []byte)) error { return nil }

// A ceiling limits the live sessions of a tenant, and forks count as sessions.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	h := &holders{}
	f := crowded(t, httpapi.Limits{}, func(c *parts) { c.Line = h })
	host, err := json.Marshal(map[string]any{"isolations": []string{"cell"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.PutWorkers(t.Context(), []store.Worker{{ID: "w", Pool: pool, Slots: 1, Host: host}}); err != nil {
		t.Fatal(err)
	}
	if err := f.store.PutTenant(t.Context(), store.Tenant{Name: "mean", Weight: 1, Ceiling: json.RawMessage(`{"sessions":2,"registries":["ghcr.io"]}`)}); err != nil {
		t.Fatal(err)
	}
	open := func(token, path string) (int, api.ProblemDetails) {
		return f.send(token, "POST", path, strings.NewReader(`{}`), "Content-Type", api.JSON)
	}
	elsewhere := strings.NewReader(`{"image":"someone/python"}`)
	if code, p := f.send("of-mean", "POST", "/v1/sessions", elsewhere, "Content-Type", api.JSON); code != http.StatusForbidden || len(p.Errors) != 1 || p.Errors[0].Field != "image" {
		t.Errorf("a session with an image above the ceiling: %d %+v", code, p)
	}
	for range 2 {
		if code, p := open("of-mean", "/v1/sessions"); code != http.StatusCreated {
			t.Fatalf("%d %s", code, p.Detail)
		}
	}
	live, err := f.store.ListSessions(t.Context(), "mean", true, 10)
	if err != nil || len(live) != 2 {
		t.Fatal(live, err)
	}
	asked := h.calls.Load()
	for _, path := range []string{"/v1/sessions", "/v1/sessions/" + string(live[0].ID) + "/fork"} {
		if code, p := open("of-mean", path); code != http.StatusTooManyRequests || len(p.Errors) != 1 || p.Errors[0].Field != "sessions" {
			t.Errorf("%s: %d %+v", path, code, p)
		}
	}
	if n := h.calls.Load(); n != asked {
		t.Errorf("a worker was asked %d times for sessions that may not be", n-asked)
	}
	// A worker reports that the tenant has used its share there.
	if code, p := open("of-full", "/v1/sessions"); code != http.StatusTooManyRequests || len(p.Errors) != 1 || p.Errors[0].Field != "sessions" {
		t.Errorf("%d %+v", code, p)
	}
	if code, p := open("of-kind", "/v1/sessions"); code != http.StatusCreated {
		t.Errorf("the other tenant: %d %s", code, p.Detail)
	}
}
