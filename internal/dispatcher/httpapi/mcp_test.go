package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/mcp"
	"github.com/assay-run/assay/pkg/store"
)

// as sends requests with a token.
type as struct {
	token string
	http.RoundTripper
}

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	return a.RoundTripper.RoundTrip(r)
}

// agent returns a client of a dispatcher's tools, with a token and a protocol version ("": the newest).
func agent(t *testing.T, base, token, version string, o *sdk.ClientOptions) (*sdk.ClientSession, error) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	a, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: as{token, transport}},
		MaxRetries: -1, DisableStandaloneSSE: true}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err == nil {
		t.Cleanup(func() { _ = a.Close() })
	}
	return a, err
}

// use calls a tool.
func use(t *testing.T, a *sdk.ClientSession, tool, arguments string) (p mcp.Payload, said string, failed bool) {
	t.Helper()
	res, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if raw, err := json.Marshal(res.StructuredContent); err != nil || json.Unmarshal(raw, &p) != nil {
		t.Fatalf("%s: %v, %s", tool, err, raw)
	}
	for _, c := range res.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			said += text.Text
		}
	}
	return p, said, res.IsError
}

func twoTenants(t *testing.T) func(*parts) {
	t.Helper()
	auth, err := identity.ReadTokens("key-a=a,key-b=b")
	if err != nil {
		t.Fatal(err)
	}
	return func(p *parts) { p.Auth = auth }
}

// Agents of two tenants alternate between the tools of two dispatchers, and each sees only its own data.
func TestMCP(t *testing.T) {
	t.Parallel()
	var cfg *parts
	f := newFleet(t, twoTenants(t), func(p *parts) { cfg = p })
	other := httpapi.New(cfg.wired())
	own, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 0 {
			other.ServeHTTP(w, r)
			return
		}
		proxyTo(own, w, r)
	}))
	t.Cleanup(balancer.Close)
	for _, version := range []string{"", "2025-06-18"} {
		a, err := agent(t, balancer.URL, "key-a", version, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := agent(t, balancer.URL, "key-b", version, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, said, failed := use(t, a, "run_python", `{"code":"hello"}`)
		if !p.Success || p.Stdout != "hello" || failed {
			t.Fatalf("%+v, %s", p, said)
		}
		if p, said, failed := use(t, a, "run_python", `{"code":"fail"}`); p.Success || *p.ExitCode != 1 || failed {
			t.Errorf("a program that fails: %+v, %s, %v", p, said, failed)
		}
		if p, said, _ = use(t, a, "run_python", `{"code":"artifact"}`); len(p.Artifacts) != 1 {
			t.Fatalf("%+v, %s", p, said)
		}
		id, _ := json.Marshal(p.JobID)
		if _, said, failed := use(t, a, "read_artifact", `{"path":"out/a b.html","job_id":`+string(id)+`}`); failed || !strings.Contains(said, "alert(1)") {
			t.Errorf("%s", said)
		}
		if r, err := a.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: p.Artifacts[0].URI}); err != nil || !strings.Contains(r.Contents[0].Text, "alert(1)") {
			t.Errorf("%v", err)
		}
		for tool, more := range map[string]string{"get_result": "", "read_output": "", "list_artifacts": "", "read_artifact": `,"path":"/workspace/out/a b.html"`} {
			if _, said, failed := use(t, b, tool, `{"job_id":`+string(id)+more+`}`); !failed || !strings.Contains(said, "not found") {
				t.Errorf("%s of another tenant's job: %s", tool, said)
			}
		}
	}
}

// proxyTo forwards a request and streams the response back.
func proxyTo(to *url.URL, w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = to.Scheme, to.Host, to.Host, ""
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// Callers without a token are rejected, as by the rest of the API.
func TestMCPWantsAToken(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoTenants(t))
	if _, err := agent(t, f.url, "key-c", "", nil); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("a wrong token: %v", err)
	}
	resp, text := raw(t, f.url, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer key-c")
	if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "" || !strings.Contains(text, "the token is unknown here") {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, text)
	}
}

// raw posts a message like a client of an old version.
func raw(t *testing.T, base, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// Web pages cannot use the tools of a fleet without tokens. A proxy that keeps the host name can, if tokens identify
// the caller.
func TestMCPOrigin(t *testing.T) {
	t.Parallel()
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	open, closed := newFleet(t), newFleet(t, twoTenants(t))
	for name, c := range map[string]struct {
		fleet  *fleet
		want   int
		header []string
	}{
		"no browser":          {open, 200, nil},
		"another site":        {open, 403, []string{"Origin", "https://evil.example"}},
		"another site, token": {closed, 403, []string{"Origin", "https://evil.example", "Authorization", "Bearer key-a"}},
		"another name":        {open, 403, []string{"Host", "evil.example"}},
		"another name, token": {closed, 200, []string{"Host", "assay.example", "Authorization", "Bearer key-a"}},
	} {
		if resp, text := raw(t, c.fleet.url, list, c.header...); resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d: %.200s", name, resp.StatusCode, c.want, text)
		}
	}
}

// Invalid messages are rejected with an error that describes the problem.
func TestMCPBadInput(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":` + arguments + `}}`
	}
	for name, c := range map[string]struct {
		body, want string
		status     int
	}{
		"no JSON":       {`{`, "malformed payload", 400},
		"empty":         {``, "is empty", 422},
		"no method":     {`{"jsonrpc":"2.0","id":1,"method":"tools/eat"}`, "tools/eat", 400},
		"unknown tool":  {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_ruby"}}`, "run_ruby", 200},
		"invalid UTF-8": {call("{\"code\":\"\xff\"}"), "arguments: are not UTF-8", 200},
		"timeout 0":     {call(`{"code":"x","timeout":0}`), "/properties/timeout", 200},
		"timeout 1e9":   {call(`{"code":"x","timeout":1e9}`), "/properties/timeout", 200},
		"10 MB of code": {call(`{"code":"` + strings.Repeat("x", 10_000_000) + `"}`), "program.python.code", 200},
		"no policy":     {call(`{"code":"x","policy":"none"}`), "none", 200},
		"wrong name":    {call(`{"code":"x","policy":"../../etc"}`), "policy", 200},
	} {
		resp, text := raw(t, f.url, c.body)
		if resp.StatusCode != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %.300s; want %d … %s", name, resp.StatusCode, text, c.status, c.want)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if resp, text := f.do(method, "/mcp", ""); resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %d %s", method, resp.StatusCode, text)
		}
	}
	f.empty()
}

// A named policy is the tenant's own and never exceeds its ceiling; neither do the arguments.
func TestMCPCeiling(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoTenants(t))
	if err := f.store.PutTenant(t.Context(), store.Tenant{Name: "a", Weight: 1, Ceiling: json.RawMessage(`{"above":"refuse","wall":"20s","memory":"128Mi"}`)}); err != nil {
		t.Fatal(err)
	}
	// Stored before the ceiling existed, or by an operator.
	for name, p := range map[string]string{"wide": `{"memory":"1Gi"}`, "narrow": `{"memory":"64Mi","wall":"5s"}`} {
		if err := f.store.PutPolicy(t.Context(), nil, "a", name, json.RawMessage(p)); err != nil {
			t.Fatal(err)
		}
	}
	a, err := agent(t, f.url, "key-a", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for arguments, refused := range map[string]string{
		`{"code":"x","policy":"wide"}`:               "memory",
		`{"code":"x","policy":"wide","timeout":5}`:   "memory",
		`{"code":"x","policy":"narrow"}`:             "",
		`{"code":"x","policy":"narrow","timeout":5}`: "",
		`{"code":"x","policy":"narrow","timeout":6}`: "more than the policy allows",
		`{"code":"x","timeout":21}`:                  "wall",
	} {
		p, said, failed := use(t, a, "run_python", arguments)
		if failed != (refused != "") || !strings.Contains(said, refused) || p.Success == failed {
			t.Errorf("%s: %v %s, want %q", arguments, failed, said, refused)
		}
	}
	b, err := agent(t, f.url, "key-b", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, said, failed := use(t, b, "run_python", `{"code":"x","policy":"narrow"}`); !failed || !strings.Contains(said, "narrow") {
		t.Errorf("another tenant's policy: %s", said)
	}
}

// Canceling a call cancels its job in every protocol version, and so does a disconnect.
func TestMCPCancel(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, version := range []string{"", "2025-06-18"} {
		heard := make(chan *sdk.ProgressNotificationParams, 100)
		a, err := agent(t, f.url, "", version, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, rq *sdk.ProgressNotificationClientRequest) { heard <- rq.Params }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		rq := &sdk.CallToolParams{Name: "run_python", Arguments: json.RawMessage(`{"code":"hang"}`)}
		rq.SetProgressToken("p")
		over := make(chan error, 1)
		go func() { _, err := a.CallTool(ctx, rq); over <- err }()
		if p := <-heard; p.ProgressToken != "p" || !strings.HasPrefix(p.Message, "job ") {
			t.Errorf("%+v", p)
		}
		f.hanging(1)
		cancel()
		f.hanging(0)
		if err := <-over; err == nil {
			t.Error("a canceled call has an answer")
		}
	}
}

// hanging waits until n jobs wait to be canceled.
func (f *fleet) hanging(n int) {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); f.runner.hangs() != n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%d jobs hang, want %d", f.runner.hangs(), n)
		}
	}
}

// Clients of old versions cancel a call by a separate request. They can cancel only their own calls.
func TestMCPCanceledByNotification(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	begin := func() string {
		resp, _ := raw(t, f.url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
		return resp.Header.Get("Mcp-Session-Id")
	}
	mine, others := begin(), begin()
	if mine == "" || mine == others {
		t.Fatalf("%q and %q", mine, others)
	}
	over := make(chan string, 1)
	go func() {
		_, text := raw(t, f.url, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"hang"}}}`, "Mcp-Session-Id", mine)
		over <- text
	}()
	f.hanging(1)
	cancel := func(session, id string) {
		resp, text := raw(t, f.url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, "Mcp-Session-Id", session)
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
	}
	cancel(others, "7")
	cancel(mine, "8")
	cancel("", "7")
	if f.runner.hangs() != 1 {
		t.Fatal("somebody else canceled it")
	}
	cancel(mine, "7")
	f.hanging(0)
	if text := <-over; !strings.Contains(text, "was canceled with the call") {
		t.Error(text)
	}
}

// A dispatcher that shuts down leaves jobs running and describes how to get their results.
func TestMCPLeaves(t *testing.T) {
	t.Parallel()
	var cfg *parts
	f := newFleet(t, func(p *parts) { cfg = p })
	leaving := httptest.NewUnstartedServer(nil)
	leaving.Config = httpapi.NewHTTPServer(httpapi.New(cfg.wired()))
	leaving.Start()
	over := make(chan string, 1)
	go func() {
		_, text := raw(t, leaving.URL, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"hang"}}}`)
		over <- text
	}()
	f.hanging(1)
	if err := leaving.Config.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	text := <-over
	_, id, ok := strings.Cut(text, "Call get_result with job_id ")
	if !ok || f.runner.hangs() != 1 {
		t.Fatalf("%d jobs hang: %s", f.runner.hangs(), text)
	}
	f.want(http.StatusOK, nil, http.MethodPost, "/v1/jobs/"+id[:36]+"/cancel", "")
	a, err := agent(t, f.url, "", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, said, failed := use(t, a, "get_result", `{"job_id":"`+id[:36]+`"}`); string(p.Outcome) != "canceled" || !failed {
		t.Errorf("%s", said)
	}
}

// A tool's operations count towards the tenant's quota, in addition to the request itself.
func TestMCPQuota(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoTenants(t))
	if err := f.store.PutTenant(t.Context(), store.Tenant{Name: "a", Weight: 1, Ceiling: json.RawMessage(`{"requests_per_second":0.01}`)}); err != nil {
		t.Fatal(err)
	}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if resp, text := raw(t, f.url, list, "Authorization", "Bearer key-a"); resp.StatusCode != http.StatusOK || !bytes.Contains([]byte(text), []byte(`"run_python"`)) {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if resp, text := raw(t, f.url, list, "Authorization", "Bearer key-a"); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}
