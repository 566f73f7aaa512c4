package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const someID = job.ID("01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b88")

// scripted is a fleet with scripted answers that records the calls.
type scripted struct {
	result   job.Result
	execute  job.Execute
	policies map[string]string
	files    map[string]string
	output   string
	err      error // of every call
	hang     bool  // results and executions arrive only after a cancel or an interrupt

	mu      sync.Mutex
	specs   []job.Spec
	created []job.SessionSpec
	asked   []api.ExecuteRequest
	did     []string
	stop    chan struct{}
	once    sync.Once
}

func newScripted() *scripted {
	return &scripted{stop: make(chan struct{}), result: job.Result{ID: someID, Outcome: job.Succeeded}, execute: job.Execute{SessionID: someID, Outcome: job.Succeeded, Alive: true}}
}

func (f *scripted) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, fmt.Sprintf(format, args...))
}

func (f *scripted) has(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.did, what)
}

func (f *scripted) Submit(_ context.Context, s job.Spec) (api.Accepted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.specs = append(f.specs, s)
	f.did = append(f.did, "submit")
	return api.Accepted{ID: someID, State: job.Queued}, f.err
}

func (f *scripted) Job(context.Context, job.ID, time.Duration) (*job.Job, error) {
	return &job.Job{ID: someID, State: job.Running}, f.err
}

func (f *scripted) wait(ctx context.Context) error {
	if !f.hang {
		return f.err
	}
	select {
	case <-f.stop:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *scripted) Result(ctx context.Context, _ job.ID) (*job.Result, error) {
	return &f.result, f.wait(ctx)
}

func (f *scripted) Cancel(_ context.Context, id job.ID) (api.Accepted, error) {
	f.note("cancel %s", id)
	return api.Accepted{}, f.err
}

func (f *scripted) Output(context.Context, job.ID, string, int) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f.output)), f.err
}

func (f *scripted) Artifacts(context.Context, job.ID) ([]job.Artifact, error) {
	return f.result.Artifacts, f.err
}

func (f *scripted) Artifact(_ context.Context, _ job.ID, path string) (io.ReadCloser, error) {
	text, ok := f.files[path]
	if !ok {
		return nil, fmt.Errorf("%w: %s", job.ErrNotFound, path)
	}
	return io.NopCloser(strings.NewReader(text)), f.err
}

func (f *scripted) Policy(_ context.Context, name string) (json.RawMessage, error) {
	p, ok := f.policies[name]
	if !ok {
		return nil, job.ErrNotFound
	}
	return json.RawMessage(p), nil
}

func (f *scripted) CreateSession(_ context.Context, s job.SessionSpec) (*job.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.created = append(f.created, s)
	return &job.Session{ID: someID, Spec: s}, f.err
}

func (f *scripted) Execute(ctx context.Context, _ job.ID, rq api.ExecuteRequest) (*job.Execute, error) {
	f.mu.Lock()
	f.asked = append(f.asked, rq)
	f.did = append(f.did, "execute")
	f.mu.Unlock()
	return &f.execute, f.wait(ctx)
}

func (f *scripted) Interrupt(_ context.Context, id job.ID) error {
	f.note("interrupt %s", id)
	f.once.Do(func() { close(f.stop) })
	return nil
}

func (f *scripted) KeepSession(_ context.Context, id job.ID) error {
	f.note("keep %s", id)
	return f.err
}

func (f *scripted) CloseSession(_ context.Context, id job.ID) (*job.Session, error) {
	f.note("close %s", id)
	return &job.Session{ID: id}, f.err
}

func (f *scripted) FileRange(_ context.Context, _ job.ID, path string, offset, n int64) ([]byte, error) {
	text := f.files[path]
	return []byte(text[offset:min(offset+n, int64(len(text)))]), f.err
}

// agent is a client of a server over pipes.
type agent struct {
	*sdk.ClientSession
	t      *testing.T
	cut    func() error // closes its side of the pipes without a message
	served chan error
	heard  chan *sdk.ProgressNotificationParams
}

// serve connects a client to a server of the fleet.
func serve(t *testing.T, c Config) *agent {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	a := &agent{t: t, cut: toServer.Close, served: make(chan error, 1), heard: make(chan *sdk.ProgressNotificationParams, 100)}
	go func() { a.served <- Serve(t.Context(), c, fromClient, toClient) }()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, rq *sdk.ProgressNotificationClientRequest) { a.heard <- rq.Params }})
	var err error
	if a.ClientSession, err = client.Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// tool calls a tool and decodes its structured content, if it has any.
func (a *agent) tool(name string, args any, out any) *sdk.CallToolResult {
	a.t.Helper()
	res, err := a.CallTool(a.t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s: %v", name, err)
	}
	if out == nil || res.StructuredContent == nil {
		return res
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		a.t.Fatalf("%s: %v", name, err)
	}
	return res
}

// said returns the text of a result.
func said(r *sdk.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

type object = map[string]any

// soon fails the test unless ok returns true within a long timeout.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
