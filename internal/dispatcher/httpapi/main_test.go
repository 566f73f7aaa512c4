package httpapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/admit"
	workers "github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/intake"
	"github.com/assay-run/assay/internal/dispatcher/secret"
	"github.com/assay-run/assay/internal/dispatcher/session"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const pool = "default"

// testKey is 32 bytes in base64.
const testKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// fleet is the API over a real store, with a scripted worker.
type fleet struct {
	t       *testing.T
	store   store.Store
	objects *object.Store
	runner  *runner
	url     string
	http    *http.Client // validates every exchange against the OpenAPI document
	served  []string     // all patterns
}

// parts are the parts of a Server and its services.
type parts struct {
	httpapi.Config
	Store      store.Store // of the server and of its services
	Dispatcher interface {
		httpapi.Watcher
		intake.Dispatcher
	}
	Secrets   keeper
	Line      session.Line
	Callbacks intake.Callbacks
	Fleet     admin.Fleet
	Version   string
}

type keeper interface {
	httpapi.Secrets
	admit.Secrets
	admin.Secrets
}

// wired returns the configuration of a Server with the same services as in cmd/dispatcher.
func (p *parts) wired() httpapi.Config {
	c := p.Config
	c.Store = p.Store
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Workers = workers.New(workers.Config{Pools: c.Pools, Every: time.Second, Log: c.Log}, p.Store)
	c.Admit = &admit.Admitter{Policies: p.Store, Tenants: admit.Recent(p.Store), Blobs: c.Objects, Secrets: p.Secrets,
		Pool: c.Workers.Pool, Reserved: c.Workers.Reserved, Room: c.Workers.Room, Hosts: c.Workers.Hosts, Images: c.Workers}
	c.Intake = intake.New(intake.Config{Store: p.Store, Admit: c.Admit, Dispatcher: p.Dispatcher, Fleet: c.Workers, Callbacks: p.Callbacks,
		Queued: c.Limits.Queued, Batches: c.Limits.Batches, Log: c.Log})
	c.Sessions = session.New(session.Config{Store: p.Store, Line: p.Line, Fleet: c.Workers, Admit: c.Admit, Log: c.Log})
	c.Admin = &admin.Admin{Store: p.Store, Objects: c.Objects, Secrets: p.Secrets, Fleet: p.Fleet, Wake: p.Dispatcher.Wake, Stop: c.Canceler.SendCancel, Pool: c.Workers.Pool,
		Version: p.Version, Log: c.Log}
	c.Watcher, c.Secrets = p.Dispatcher, p.Secrets
	return c
}

// newFleet starts a fleet. change may modify its configuration.
func newFleet(t *testing.T, change ...func(*parts)) *fleet {
	t.Helper()
	dsn := testenv.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	o, err := object.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	r := newRunner(t, s, o)
	secrets, err := secret.New(testKey, s)
	if err != nil {
		t.Fatal(err)
	}
	cfg := parts{Dispatcher: r, Secrets: secrets, Store: s, Config: httpapi.Config{
		Objects: o, Canceler: r, Queue: r, Auth: identity.Open{},
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}}
	for _, f := range change {
		f(&cfg)
	}
	cfg.Site.Local = cfg.Site.Local || identity.IsOpen(cfg.Auth)
	api := httpapi.New(cfg.wired())
	srv := httptest.NewUnstartedServer(api)
	srv.Config.ReadHeaderTimeout = 10 * time.Second
	srv.Start()
	t.Cleanup(srv.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &fleet{t: t, store: s, objects: o, runner: r, url: srv.URL, http: &http.Client{Transport: newChecker(t, transport)}, served: httpapi.Served(api)}
}

// client returns a Go client whose exchanges are validated, too.
func (f *fleet) client(o ...client.Option) *client.Client {
	f.t.Helper()
	c, err := client.New(f.url, append([]client.Option{client.WithHTTPClient(f.http), client.WithPatience(5 * time.Second)}, o...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// do sends a request and returns the response and its body.
func (f *fleet) do(method, path, body string, header ...string) (*http.Response, string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.http.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp, string(raw)
}

// want sends a request, checks the status and decodes the response.
func (f *fleet) want(status int, into any, method, path, body string, header ...string) *http.Response {
	f.t.Helper()
	resp, raw := f.do(method, path, body, header...)
	if resp.StatusCode != status {
		f.t.Fatalf("%s %s: %d %s, want %d", method, path, resp.StatusCode, raw, status)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(raw), into); err != nil {
			f.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	return resp
}

// empty checks that no job was accepted.
func (f *fleet) empty() {
	f.t.Helper()
	bs, err := f.store.Batches(f.t.Context(), "", "", 10)
	if err != nil {
		f.t.Fatal(err)
	}
	st, err := f.store.Stats(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if n := st.Queued + st.Dispatched + st.Running; len(bs) != 0 || n != 0 {
		f.t.Errorf("something was written: %d batches, %d jobs", len(bs), n)
	}
}

// python returns a job as JSON. code is a command of the runner.
func python(code string) string { return `{"program":{"python":{"code":"` + code + `"}}}` }

// runner is a dispatcher and a worker without a queue. It runs the commands in its programs.
type runner struct {
	t       *testing.T
	store   store.Store
	objects *object.Store
	wake    chan struct{}

	down     atomic.Bool     // Ping fails
	ctx      context.Context // ends with the test
	wg       sync.WaitGroup
	mu       sync.Mutex
	held     bool
	watchers map[job.ID]map[chan struct{}]bool
	cancels  map[job.ID]chan struct{}
}

func (r *runner) Ping(context.Context) error {
	if r.down.Load() {
		return job.ErrUnavailable
	}
	return nil
}

func newRunner(t *testing.T, s store.Store, o *object.Store) *runner {
	ctx, cancel := context.WithCancel(context.Background())
	r := &runner{t: t, store: s, objects: o, wake: make(chan struct{}, 1), watchers: map[job.ID]map[chan struct{}]bool{}, cancels: map[job.ID]chan struct{}{}}
	r.ctx = ctx
	r.wg.Go(func() {
		for {
			select {
			case <-r.wake:
			case <-ctx.Done():
				return
			}
			r.drain(ctx)
		}
	})
	t.Cleanup(func() { cancel(); r.wg.Wait() })
	return r
}

// hold keeps jobs queued until release.
func (r *runner) hold()    { r.mu.Lock(); r.held = true; r.mu.Unlock() }
func (r *runner) release() { r.mu.Lock(); r.held = false; r.mu.Unlock(); r.Wake() }

func (r *runner) Window(string) int { return 100 }

func (r *runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Assign assigns no job; Dispatch runs dispatched jobs at once.
func (r *runner) Assign(*store.NewJob) func(context.Context, *store.Dispatch, error) { return nil }

// Dispatch runs jobs at once.
func (r *runner) Dispatch(_ context.Context, ds []store.Dispatch) error {
	for _, d := range ds {
		r.wg.Go(func() { r.runOne(r.ctx, d) })
	}
	return nil
}

func (r *runner) SendCancel(_ string, l store.LeaseRef) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.cancels[l.Job]; c != nil {
		close(c)
		delete(r.cancels, l.Job)
	}
	return nil
}

func (r *runner) WatchJob(id job.ID) (<-chan struct{}, func())   { return r.watch(id) }
func (r *runner) WatchBatch(id job.ID) (<-chan struct{}, func()) { return r.watch(id) }

func (r *runner) WatchRecord(id job.ID) (<-chan struct{}, func() json.RawMessage, func()) {
	changed, stop := r.watch(id)
	return changed, func() json.RawMessage { return nil }, stop // as if another dispatcher had written it
}

func (r *runner) watch(id job.ID) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers[id] == nil {
		r.watchers[id] = map[chan struct{}]bool{}
	}
	r.watchers[id][c] = true
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers[id], c)
	}
}

func (r *runner) tell(ids ...job.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		for c := range r.watchers[id] {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

func (r *runner) drain(ctx context.Context) {
	for {
		r.mu.Lock()
		held := r.held
		r.mu.Unlock()
		if held {
			return
		}
		ds, err := r.store.Schedule(ctx, []string{placement.Any, pool, placement.Need{Labels: placement.Speaking(nil, placement.Languages)}.Class()}, 100)
		if err != nil || len(ds) == 0 {
			return
		}
		for _, d := range ds {
			r.wg.Go(func() { r.runOne(ctx, d) })
		}
	}
}

func (r *runner) runOne(ctx context.Context, d store.Dispatch) {
	got, err := r.store.Claim(ctx, time.Minute, []store.Claim{{Ref: d.Ref, Worker: "w1"}})
	if err != nil && ctx.Err() == nil {
		r.t.Errorf("claim: %v", err)
	}
	if err != nil || got[0].Lease == 0 {
		return
	}
	r.Wake() // the window has room again
	c := got[0]
	var spec job.Spec
	if err := json.Unmarshal(c.Spec, &spec); err != nil {
		r.t.Errorf("spec of job %s: %v", c.Job, err)
		return
	}
	res := r.perform(ctx, c, spec)
	if res == nil {
		return // the test has ended
	}
	raw, err := json.Marshal(res)
	if err != nil {
		r.t.Error(err)
		return
	}
	f := store.Finish{Worker: "w1", LeaseRef: store.LeaseRef{Job: c.Job, Lease: c.Lease}, BatchID: c.BatchID, Outcome: res.Outcome, Result: raw}
	if _, err := r.store.Finish(ctx, []store.Finish{f}); err != nil && ctx.Err() == nil && !errors.Is(err, job.ErrUnavailable) {
		r.t.Errorf("finish: %v", err)
	}
	r.tell(c.Job, c.BatchID)
	r.Wake() // other jobs may run now
}

// perform runs the program's first word: fail, hang (until canceled), artifact, or any other text, which it prints. The
// image nowhere does not exist.
func (r *runner) perform(ctx context.Context, c store.Claimed, spec job.Spec) *job.Result {
	code := ""
	if p := spec.Program.Python; p != nil {
		code = p.Code
	}
	res := &job.Result{ID: c.Job, Outcome: job.Succeeded, State: job.Finished, Stdout: job.Output{Text: code, Bytes: int64(len(code))}}
	if spec.Image == "nowhere" {
		res.Outcome, res.State, res.Message = job.SetupError, job.SetupError.State(), "this worker has no image nowhere"
		return res
	}
	switch code {
	case "fail":
		one := 1
		res.Outcome, res.ExitCode = job.Failed, &one
	case "hang":
		stop := make(chan struct{})
		r.mu.Lock()
		r.cancels[c.Job] = stop
		r.mu.Unlock()
		r.tell(c.Job, c.BatchID)
		select {
		case <-stop:
			res.Outcome, res.State = job.OutcomeCanceled, job.Canceled
		case <-ctx.Done():
			return nil
		}
	case "artifact":
		res.Artifacts = []job.Artifact{r.leave(ctx, c, "/workspace/out/a b.html", "<script>alert(1)</script>")}
	}
	return res
}

func (r *runner) leave(ctx context.Context, c store.Claimed, path, text string) job.Artifact {
	key, err := object.ArtifactKey(c.Tenant, c.Job, c.Lease, path)
	if err != nil {
		r.t.Error(err)
	}
	info, err := r.objects.Put(ctx, key, strings.NewReader(text))
	if err != nil {
		r.t.Error(err)
	}
	return job.Artifact{Path: path, Bytes: info.Bytes, SHA256: info.SHA256, MediaType: "text/html", Object: key}
}

// hangs returns the number of jobs that wait to be canceled.
func (r *runner) hangs() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.cancels)
}

// watching returns the number of waiting requests.
func (r *runner) watching(id job.ID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.watchers[id])
}
