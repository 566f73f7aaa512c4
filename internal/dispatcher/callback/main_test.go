package callback

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// secrets is a keeper of plain values.
type secrets map[string]string

func (s secrets) Open(_ context.Context, tenant, name string) (string, error) {
	if v, ok := s[tenant+"/"+name]; ok {
		return v, nil
	}
	return "", job.ErrNotFound
}

const key = "0123456789abcdef0123456789abcdef"

// fixture is a real store with senders.
type fixture struct {
	*testing.T
	store   *postgres.Store
	secrets secrets
}

func newFixture(t *testing.T) *fixture {
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
	return &fixture{t, s, secrets{"acme/hook": key}}
}

// done creates a finished batch with a callback.
func (f *fixture) done(c job.Callback) job.ID {
	f.Helper()
	id, err := f.store.SubmitBatch(f.Context(), store.NewBatch{ID: job.NewID(), Tenant: "acme", Name: "b", Callback: &c},
		[]store.NewJob{{ID: job.NewID(), Tenant: "acme", Pool: "p", Spec: []byte(`{"program":{"python":{"code":"1"}}}`)}})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := f.store.CancelBatch(f.Context(), id); err != nil {
		f.Fatal(err)
	}
	return id
}

// allowLocal returns rules that allow loopback addresses.
func allowLocal(t *testing.T) netrule.Rules {
	t.Helper()
	r, err := netrule.ParseRanges([]string{"127.0.0.0/8:*", "[::1]:*"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (f *fixture) sender(change func(*Config)) *Sender {
	f.Helper()
	cfg := Config{Allow: allowLocal(f.T), Every: 10 * time.Millisecond, First: 5 * time.Millisecond, Timeout: 20 * time.Second,
		Log: slog.New(slog.NewTextHandler(f.Output(), nil))}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg, f.store, f.secrets)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// start runs a sender until the test ends or stop is called.
func (f *fixture) start(s *Sender) (stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	stop = func() { cancel(); testenv.Receive(f, "the end of the sender", ended) }
	f.Cleanup(stop)
	return stop
}

// until waits until ok accepts the callback of a batch.
func (f *fixture) until(id job.ID, what string, ok func(*job.Delivery) bool) *job.Delivery {
	f.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-tick.C {
		b, err := f.store.Batch(f.Context(), "acme", id)
		if err != nil {
			f.Fatal(err)
		}
		if ok(b.Callback) {
			return b.Callback
		}
		if time.Now().After(end) {
			f.Fatalf("not within 30 s: %s; it is %+v", what, b.Callback)
		}
	}
}

func delivered(d *job.Delivery) bool { return !d.DeliveredAt.IsZero() }

// call is one request at the receiver.
type call struct {
	id, timestamp, signature string
	body                     []byte
}

func (c call) event(t *testing.T) (e Event) {
	t.Helper()
	if err := json.Unmarshal(c.body, &e); err != nil {
		t.Errorf("body %s: %v", c.body, err)
	}
	return e
}

// receiver is a server that records requests and sends scripted answers.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *receiver {
	rc := &receiver{}
	rc.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rc.mu.Lock()
		rc.calls = append(rc.calls, call{r.Header.Get(HeaderID), r.Header.Get(HeaderTimestamp), r.Header.Get(HeaderSignature), body})
		n := len(rc.calls)
		rc.mu.Unlock()
		answer(w, r, n)
	}))
	t.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) seen() []call {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return append([]call(nil), rc.calls...)
}

func status(codes ...int) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, n int) { w.WriteHeader(codes[min(n, len(codes))-1]) }
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
