package live

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// sandboxes is a runtime whose sessions report that they are ready, and then wait.
type sandboxes struct {
	runtime.Runtime
	made atomic.Int64
}

func (s *sandboxes) Acquire(context.Context, runtime.Key) (runtime.Slot, error) {
	s.made.Add(1)
	return sandbox{}, nil
}

type sandbox struct{ runtime.Slot }

func (sandbox) Close() {}

func (sandbox) Start(context.Context, runtime.Attempt) (runtime.Process, error) {
	near, far := net.Pipe()
	go func() { _ = frame.Write(far, map[string]any{"op": "ready"}) }()
	return program{near, far}, nil
}

// program runs until it is stopped.
type program struct{ near, far net.Conn }

func (p program) Conn() net.Conn { return p.near }

func (p program) Stop() { _ = p.far.Close() }

func (p program) Wait() (*runtime.Report, error) {
	_ = p.near.Close()
	report := &runtime.Report{}
	report.Outcome = job.Succeeded
	return report, nil
}

// line is a connection without dispatchers.
type line struct{ serving chan struct{} }

func (l line) ServeSessions(context.Context, string, func(context.Context, control.SessionCall) (control.SessionReply, error)) error {
	close(l.serving)
	return nil
}
func (line) Broadcast(string, string, []byte) error { return nil }

// manage runs a Manager until the test ends.
func manage(t *testing.T, c Config) *Manager {
	t.Helper()
	serving := make(chan struct{})
	c.Worker, c.Server = "w", line{serving}
	c.Plan = func(p policy.Policy, _ policy.Use) (*policy.Plan, error) { return &policy.Plan{Policy: p}, nil }
	m := New(c)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	<-serving
	return m
}

func opening(tenant, pol string) control.SessionCall {
	return control.SessionCall{Op: control.SessionOpen, Session: job.NewID(), Tenant: tenant,
		Spec: &job.SessionSpec{Policy: json.RawMessage(pol), IdleTimeout: job.Duration(time.Hour)}}
}

// TestOneTenantTakesAllPlaces checks that one tenant that opens many sessions of 4 GiB at once leaves room for
// another tenant.
func TestOneTenantTakesAllPlaces(t *testing.T) {
	t.Parallel()
	rt := &sandboxes{}
	m := manage(t, Config{Runtime: rt, Limits: Limits{Places: 512, Memory: 160 * job.GiB}})
	var greedy sync.WaitGroup
	var got atomic.Int64
	for range 600 {
		greedy.Go(func() {
			_, err := m.Handle(t.Context(), opening("greedy", `{"memory":"4Gi","cpu":1}`))
			if err == nil {
				got.Add(1)
			} else if !errors.Is(err, job.ErrTooMany) {
				t.Errorf("refused with %v", err)
			}
		})
	}
	greedy.Wait()
	if n := got.Load(); n != 20 || rt.made.Load() != n {
		t.Errorf("the greedy tenant has %d sessions in %d sandboxes, want half of what fits: 20", n, rt.made.Load())
	}
	for i := range 100 {
		if _, err := m.Handle(t.Context(), opening("victim", `{"memory":"256Mi","cpu":1}`)); err != nil {
			t.Fatalf("session %d of the other tenant: %v", i, err)
		}
	}
}

// TestPlacesComeBack checks that a session's room is released at its end, however it ends.
func TestPlacesComeBack(t *testing.T) {
	t.Parallel()
	m := manage(t, Config{Runtime: &sandboxes{}, Limits: Limits{Places: 4}})
	for range 20 {
		a, b := opening("t", `{"memory":"1Gi"}`), opening("t", `{"memory":"1Gi"}`)
		for _, c := range []control.SessionCall{a, b} {
			if _, err := m.Handle(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := m.Handle(t.Context(), opening("t", `{"memory":"1Gi"}`)); !errors.Is(err, job.ErrTooMany) {
			t.Fatalf("a third: %v", err)
		}
		if _, err := m.Handle(t.Context(), a); err == nil { // repeated: a conflict, which must not count twice
			t.Fatal("opened twice")
		}
		for _, c := range []control.SessionCall{a, b} {
			if _, err := m.Handle(t.Context(), control.SessionCall{Op: control.SessionClose, Session: c.Session, Tenant: "t"}); err != nil {
				t.Fatal(err)
			}
		}
		await(t, func() bool { m.ledger.mu.Lock(); defer m.ledger.mu.Unlock(); return m.ledger.all == (share{}) })
	}
}

// TestHostRunsShort checks that a host with little memory opens no sessions. A host with almost none ends sessions of
// the tenant with the largest commitments, the least recently used first.
func TestHostRunsShort(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	why, starves := "", false
	m := manage(t, Config{Runtime: &sandboxes{}, Suffers: func() (string, bool) { mu.Lock(); defer mu.Unlock(); return why, starves }})
	old, young, other := opening("greedy", `{"memory":"4Gi"}`), opening("greedy", `{"memory":"4Gi"}`), opening("modest", `{"memory":"256Mi"}`)
	for _, c := range []control.SessionCall{other, old, young} {
		if _, err := m.Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	why = "short of memory"
	mu.Unlock()
	if _, err := m.Handle(t.Context(), opening("modest", `{}`)); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("opened on a host that is short: %v", err)
	}
	m.relieve()
	m.relieve()
	if n := m.Live(); n != 3 {
		t.Fatalf("%d sessions are left of a host that is only short", n)
	}
	mu.Lock()
	starves = true
	mu.Unlock()
	await(t, func() bool { return m.Live() == 2 })
	mu.Lock()
	starves = false
	mu.Unlock()
	for _, c := range []control.SessionCall{other, young} {
		if _, err := m.Handle(t.Context(), control.SessionCall{Op: control.SessionPing, Session: c.Session}); err != nil {
			t.Errorf("a session that should be left: %v", err)
		}
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it never came to that")
		}
	}
}

// slow is a runtime whose sandboxes are ready only when released, even after the caller gave up.
type slow struct {
	sandboxes
	began, let chan struct{}
}

func (s *slow) Acquire(ctx context.Context, k runtime.Key) (runtime.Slot, error) {
	s.began <- struct{}{}
	<-s.let
	return s.sandboxes.Acquire(ctx, k)
}

// TestClosedWhileItIsMade checks that a session that is closed before its sandbox is ready is not created. A
// dispatcher that stopped waiting cannot end it otherwise.
func TestClosedWhileItIsMade(t *testing.T) {
	t.Parallel()
	rt := &slow{began: make(chan struct{}, 1), let: make(chan struct{})}
	m := manage(t, Config{Runtime: rt, Limits: Limits{Places: 4}})
	c := opening("t", `{"memory":"1Gi"}`)
	opened := make(chan error, 1)
	go func() { _, err := m.Handle(t.Context(), c); opened <- err }()
	<-rt.began
	end := control.SessionCall{Op: control.SessionClose, Session: c.Session, Tenant: "other"}
	if _, err := m.Handle(t.Context(), end); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("closed by another tenant: %v", err)
	}
	if _, err := m.Handle(t.Context(), c); !errors.Is(err, job.ErrConflict) {
		t.Errorf("opened twice at once: %v", err)
	}
	end.Tenant = "t"
	if _, err := m.Handle(t.Context(), end); err != nil {
		t.Errorf("close: %v", err)
	}
	close(rt.let)
	if err := <-opened; err == nil {
		t.Error("a session that was closed was opened")
	}
	await(t, func() bool { m.ledger.mu.Lock(); defer m.ledger.mu.Unlock(); return m.ledger.all == (share{}) })
	if m.Live() != 0 || len(m.making) != 0 {
		t.Errorf("%d sessions live, %d are made", m.Live(), len(m.making))
	}
}
