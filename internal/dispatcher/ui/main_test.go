package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
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
	"github.com/assay-run/assay/internal/dispatcher/ui"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// idle provides the API's services in a fleet where nothing runs.
type idle struct{}

func (idle) Ping(context.Context) error                                         { return nil }
func (idle) Window(string) int                                                  { return 0 }
func (idle) Wake()                                                              {}
func (idle) Dispatch(context.Context, []store.Dispatch) error                   { return nil }
func (idle) Assign(*store.NewJob) func(context.Context, *store.Dispatch, error) { return nil }
func (idle) SendCancel(string, store.LeaseRef) error                            { return nil }
func (idle) WatchJob(job.ID) (<-chan struct{}, func())                          { return nil, func() {} }
func (idle) WatchBatch(job.ID) (<-chan struct{}, func())                        { return nil, func() {} }
func (idle) WatchRecord(job.ID) (<-chan struct{}, func() json.RawMessage, func()) {
	return nil, func() json.RawMessage { return nil }, func() {}
}

// CallSession responds like an unavailable worker.
func (idle) CallSession(context.Context, string, control.SessionCall) (control.SessionReply, error) {
	return control.SessionReply{}, job.ErrUnavailable
}

func (idle) OnWorkerEvent(context.Context, string, func(string, []byte)) error { return nil }

// Keys of the tests.
const (
	keys     = "sub-one=one,read-one=one:reader,op-one=one:operator,sub-two=two,op-two=two:operator,admin-one=one:admin,admin-two=two:admin"
	oneKey   = "sub-one"
	opKey    = "op-one"
	otherKey = "sub-two"
)

// fleet is the page with the API over a real store. A test plays the worker.
type fleet struct {
	t       *testing.T
	store   *postgres.Store
	objects *object.Store
	url     string
	gate    *revocable
	asked   *counted
}

// counted counts the queries for batches and jobs.
type counted struct {
	store.Store
	n atomic.Int64
}

func (c *counted) Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error) {
	c.n.Add(1)
	return c.Store.Batch(ctx, tenant, id)
}

func (c *counted) BrowseJobs(ctx context.Context, tenant string, q store.JobQuery) (store.JobPage, error) {
	c.n.Add(1)
	return c.Store.BrowseJobs(ctx, tenant, q)
}

func (c *counted) BrowseBatches(ctx context.Context, tenant string, q store.BatchQuery) (store.BatchPage, error) {
	c.n.Add(1)
	return c.Store.BrowseBatches(ctx, tenant, q)
}

func (c *counted) BatchSummary(ctx context.Context, tenant string, id job.ID) (*store.BatchSummary, error) {
	c.n.Add(1)
	return c.Store.BatchSummary(ctx, tenant, id)
}

func (c *counted) BatchMap(ctx context.Context, tenant string, id, after job.ID, n int) (*store.BatchMap, error) {
	c.n.Add(1)
	return c.Store.BatchMap(ctx, tenant, id, after, n)
}

func (c *counted) CompareBatches(ctx context.Context, tenant string, a, b job.ID, from, n int) (*store.Comparison, error) {
	c.n.Add(1)
	return c.Store.CompareBatches(ctx, tenant, a, b, from, n)
}

// revocable is a gate with keys that a test can revoke.
type revocable struct {
	identity.Gate
	revoked bool
}

func (g *revocable) Identify(r *http.Request) (identity.Identity, error) {
	if g.revoked {
		return identity.Tokens{}.Identify(r)
	}
	return g.Gate.Identify(r)
}

func newFleet(t *testing.T, change ...func(*ui.Config)) *fleet {
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
	gate, err := identity.ReadTokens(keys)
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, store: s, objects: o, gate: &revocable{Gate: gate}, asked: &counted{Store: s}}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := ui.Config{Gate: f.gate, Log: log, Waits: time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	cfg.API = newAPI(t, f.asked, o, ui.AcceptVisitors(cfg.Gate), log)
	page, err := ui.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(page)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

// newAPI returns the API as in cmd/dispatcher, without scheduling.
func newAPI(t *testing.T, s store.Store, o *object.Store, gate identity.Gate, log *slog.Logger) http.Handler {
	t.Helper()
	secrets, err := secret.New("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", s)
	if err != nil {
		t.Fatal(err)
	}
	ws := workers.New(workers.Config{Every: time.Second, Log: log}, s)
	admits := &admit.Admitter{Policies: s, Tenants: admit.Recent(s), Blobs: o, Secrets: secrets, Pool: ws.Pool, Reserved: ws.Reserved, Room: ws.Room, Hosts: ws.Hosts, Images: ws}
	return httpapi.New(httpapi.Config{
		Admit: admits, Intake: intake.New(intake.Config{Store: s, Admit: admits, Dispatcher: idle{}, Fleet: ws, Log: log}),
		Sessions: session.New(session.Config{Store: s, Line: idle{}, Fleet: ws, Admit: admits, Log: log}),
		Admin:    &admin.Admin{Store: s, Wake: func() {}, Stop: idle{}.SendCancel, Pool: ws.Pool, Version: "test", Log: log},
		Workers:  ws, Store: s, Secrets: secrets, Objects: o, Watcher: idle{}, Canceler: idle{}, Auth: gate, Queue: idle{}, Log: log,
	})
}

// submit stores jobs as a batch of a tenant.
func (f *fleet) submit(tenant, name string, labels map[string]string, specs ...job.Spec) job.ID {
	f.t.Helper()
	var jobs []store.NewJob
	for _, spec := range specs {
		raw, err := json.Marshal(spec)
		if err != nil {
			f.t.Fatal(err)
		}
		jobs = append(jobs, store.NewJob{ID: job.NewID(), Tenant: tenant, Pool: placement.Any, Spec: raw})
	}
	id, err := f.store.SubmitBatch(f.t.Context(), store.NewBatch{ID: job.NewID(), Tenant: tenant, Name: name, Labels: labels, Total: int64(len(jobs))}, jobs)
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// claim claims all waiting jobs for a worker.
func (f *fleet) claim(worker string) []store.Claimed {
	f.t.Helper()
	ds, err := f.store.Schedule(f.t.Context(), []string{placement.Any}, 10_000)
	if err != nil {
		f.t.Fatal(err)
	}
	var claims []store.Claim
	for _, d := range ds {
		claims = append(claims, store.Claim{Ref: d.Ref, Worker: worker})
	}
	got, err := f.store.Claim(f.t.Context(), time.Minute, claims)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// finish records the results of a worker's jobs.
func (f *fleet) finish(worker string, cs []store.Claimed, result func(c store.Claimed) job.Result) {
	f.t.Helper()
	var all []store.Finish
	for _, c := range cs {
		r := result(c)
		r.ID, r.State = c.Job, r.Outcome.State()
		raw, err := json.Marshal(r)
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, store.Finish{Worker: worker, LeaseRef: store.LeaseRef{Job: c.Job, Lease: c.Lease}, BatchID: c.BatchID, Outcome: r.Outcome, Result: raw})
	}
	got, err := f.store.Finish(f.t.Context(), all)
	if err != nil {
		f.t.Fatal(err)
	}
	for i, status := range got {
		if status != store.Recorded {
			f.t.Fatalf("result %d: %v", i, status)
		}
	}
}

// jobsOf lists a batch's jobs.
func (f *fleet) jobsOf(tenant string, batch job.ID) []job.Summary {
	f.t.Helper()
	page, err := f.store.BrowseJobs(f.t.Context(), tenant, store.JobQuery{JobFilter: store.JobFilter{Batch: batch}, Limit: 100})
	if err != nil {
		f.t.Fatal(err)
	}
	return page.Jobs
}

// browser is a visitor that keeps cookies and follows no redirects.
type browser struct {
	f *fleet
	c *http.Client
}

func (f *fleet) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return &browser{f, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// as returns a visitor who has signed in.
func (f *fleet) as(key string) *browser {
	f.t.Helper()
	b := f.browser()
	_, page := b.get("/ui/signin")
	if resp, _ := b.post("/ui/signin", url.Values{"form": {formOf(f.t, page)}, "key": {key}}); resp.StatusCode != http.StatusSeeOther {
		f.t.Fatalf("sign in: %d", resp.StatusCode)
	}
	return b
}

func (b *browser) do(r *http.Request) (*http.Response, string) {
	b.f.t.Helper()
	resp, err := b.c.Do(r)
	if err != nil {
		b.f.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		b.f.t.Fatal(err)
	}
	return resp, string(raw)
}

func (b *browser) get(path string, header ...string) (*http.Response, string) {
	b.f.t.Helper()
	r, err := http.NewRequestWithContext(b.f.t.Context(), http.MethodGet, b.f.url+path, nil)
	if err != nil {
		b.f.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return b.do(r)
}

func (b *browser) post(path string, form url.Values, header ...string) (*http.Response, string) {
	b.f.t.Helper()
	r, err := http.NewRequestWithContext(b.f.t.Context(), http.MethodPost, b.f.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return b.do(r)
}

// page returns a page that must exist.
func (b *browser) page(path string) string {
	b.f.t.Helper()
	resp, body := b.get(path)
	if resp.StatusCode != http.StatusOK {
		b.f.t.Fatalf("%s: %d\n%.2000s", path, resp.StatusCode, body)
	}
	return body
}

var formField = regexp.MustCompile(`name="form" value="([^"]+)"`)

// formOf returns the token of a visit's forms.
func formOf(t *testing.T, page string) string {
	t.Helper()
	m := formField.FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no form in %.2000s", page)
	}
	return m[1]
}

func python(code string) job.Spec {
	return job.Spec{Image: "python", Program: job.Program{Python: &job.Python{Code: code}}}
}
