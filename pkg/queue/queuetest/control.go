package queuetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// echo responds to every request with a value derived from it.
type echo struct{}

func (echo) HandleClaim(_ context.Context, r control.ClaimRequest) (control.ClaimReply, error) {
	reply := control.ClaimReply{TTL: job.Duration(time.Minute)}
	for i, ref := range r.Refs {
		reply.Claimed = append(reply.Claimed, store.Claimed{
			Ref: ref, Lease: job.Lease(i + 1), Tenant: r.Worker, BatchID: ref.Job,
			Spec: json.RawMessage(`{"name":"é"}`), TraceParent: "t", QueuedMS: 1.5,
		})
	}
	return reply, nil
}

func (echo) HandleHeartbeat(_ context.Context, r control.HeartbeatRequest) (control.HeartbeatReply, error) {
	return control.HeartbeatReply{Lost: r.Leases[:1], Canceled: r.Leases[1:], TTL: job.Duration(time.Duration(r.Worker.Slots))}, nil
}

func (echo) HandleFinish(_ context.Context, r control.FinishRequest) (control.FinishReply, error) {
	var reply control.FinishReply
	for _, f := range r.Finishes {
		status := store.Recorded
		if f.Outcome == job.Lost {
			status = store.Fenced
		}
		reply.Statuses = append(reply.Statuses, status)
	}
	return reply, nil
}

func (echo) HandleRelease(_ context.Context, r control.ReleaseRequest) (control.ReleaseReply, error) {
	if r.Releases[0].Reason != job.ReasonDrained {
		return control.ReleaseReply{}, fmt.Errorf("reason %q", r.Releases[0].Reason)
	}
	return control.ReleaseReply{}, nil
}

func (echo) HandleEnvironment(_ context.Context, r control.EnvironmentRequest) (control.EnvironmentReply, error) {
	return control.EnvironmentReply{Digest: r.Worker + r.Name + r.Digest, Off: r.Witness != r.Worker}, nil
}

// serve responds with h until the test ends.
func serve(t *testing.T, q control.Server, h control.Handler) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- q.Serve(ctx, h) }()
	t.Cleanup(func() {
		cancel()
		if err := eventually(t, "the end of serving", done); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

func testControl(t *testing.T, start starter) {
	b := start(t, longAck)
	serve(t, b.Connect(t), echo{})
	w := b.Connect(t)
	refs := []store.Ref{dispatches(1)[0].Ref, dispatches(1)[0].Ref}

	var claim control.ClaimReply
	insist(t, "claim", func() (err error) {
		claim, err = w.Claim(t.Context(), control.ClaimRequest{Worker: "w", Refs: refs})
		return err
	})
	want, _ := echo{}.HandleClaim(t.Context(), control.ClaimRequest{Worker: "w", Refs: refs})
	if diff := cmp.Diff(want, claim); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}

	leases := []store.LeaseRef{{Job: refs[0].Job, Lease: 1}, {Job: refs[1].Job, Lease: 1 << 40}}
	beat, err := w.Heartbeat(t.Context(), control.HeartbeatRequest{Worker: control.WorkerInfo{ID: "w", Slots: 7}, Leases: leases})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(control.HeartbeatReply{Lost: leases[:1], Canceled: leases[1:], TTL: 7}, beat); diff != "" {
		t.Errorf("heartbeat (-want +got):\n%s", diff)
	}

	finish, err := w.Finish(t.Context(), control.FinishRequest{Worker: "w", Finishes: []store.Finish{
		{LeaseRef: leases[0], Outcome: job.Succeeded, Result: json.RawMessage(`{}`)}, {LeaseRef: leases[1], Outcome: job.Lost, Result: json.RawMessage(`{}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]store.FinishStatus{store.Recorded, store.Fenced}, finish.Statuses); diff != "" {
		t.Errorf("finish (-want +got):\n%s", diff)
	}
	if _, err := w.Release(t.Context(), control.ReleaseRequest{Releases: []store.Release{{LeaseRef: leases[0], Reason: job.ReasonDrained}}}); err != nil {
		t.Error(err)
	}
	// The claimed witness of a request is ignored.
	env, err := w.Environment(t.Context(), control.EnvironmentRequest{Worker: "w", Name: "n", Digest: "d", Witness: "another", Pool: "p"})
	if err != nil || env != (control.EnvironmentReply{Digest: "wnd"}) {
		t.Errorf("environment: %+v, %v", env, err)
	}
}

// handler overrides parts of echo.
type handler struct {
	echo
	claim  func(context.Context, control.ClaimRequest) (control.ClaimReply, error)
	finish func(context.Context, control.FinishRequest) (control.FinishReply, error)
}

func (h handler) HandleClaim(ctx context.Context, r control.ClaimRequest) (control.ClaimReply, error) {
	return h.claim(ctx, r)
}

func (h handler) HandleFinish(ctx context.Context, r control.FinishRequest) (control.FinishReply, error) {
	return h.finish(ctx, r)
}

// testControlErrors checks that the errors with a meaning keep their identity.
func testControlErrors(t *testing.T, start starter) {
	b := start(t, longAck)
	var next atomic.Pointer[error]
	serve(t, b.Connect(t), handler{claim: func(context.Context, control.ClaimRequest) (control.ClaimReply, error) {
		return control.ClaimReply{}, *next.Load()
	}})
	w := b.Connect(t)
	for _, want := range []error{
		job.ErrInvalid, job.ErrNotFound, job.ErrConflict, job.ErrLost, job.ErrUnavailable, job.ErrTooLarge, job.ErrRefused,
	} {
		err := fmt.Errorf("the reason: %w", want)
		next.Store(&err)
		insistOn(t, want, func() error {
			_, err := w.Claim(t.Context(), control.ClaimRequest{})
			return err
		})
	}
	unknown := errors.New("never seen")
	next.Store(&unknown)
	insistOn(t, job.ErrUnavailable, func() error {
		_, err := w.Claim(t.Context(), control.ClaimRequest{})
		return err
	})
}

// insistOn repeats f until it fails with want.
func insistOn(t *testing.T, want error, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patient); time.Now().Before(end); {
		if err = f(); errors.Is(err, want) {
			return
		}
		if !errors.Is(err, job.ErrUnavailable) {
			break
		}
	}
	t.Errorf("got %v, want %v", err, want)
}

// testNoDispatcher checks that a missing dispatcher is reported at once, not after a timeout.
func testNoDispatcher(t *testing.T, start starter) {
	w := start(t, longAck).Connect(t)
	began := time.Now()
	_, err := w.Claim(t.Context(), control.ClaimRequest{Refs: []store.Ref{dispatches(1)[0].Ref}})
	if !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, job.ErrUnavailable)
	}
	if _, err := w.Environment(t.Context(), control.EnvironmentRequest{Name: "n"}); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("environment: got %v, want %v", err, job.ErrUnavailable)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// testLargeBodies checks bodies far above the size of one message or the buffers on the path, in
// both directions.
func testLargeBodies(t *testing.T, start starter) {
	const n, size = 80, 1 << 20
	b := start(t, longAck)
	big := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), size)) + `"`)
	var received atomic.Int64
	serve(t, b.Connect(t), handler{
		claim: func(_ context.Context, r control.ClaimRequest) (reply control.ClaimReply, _ error) {
			for _, ref := range r.Refs {
				reply.Claimed = append(reply.Claimed, store.Claimed{Ref: ref, Lease: 1, Spec: big})
			}
			return reply, nil
		},
		finish: func(_ context.Context, r control.FinishRequest) (reply control.FinishReply, _ error) {
			for _, f := range r.Finishes {
				received.Add(int64(len(f.Result)))
				reply.Statuses = append(reply.Statuses, store.Recorded)
			}
			return reply, nil
		},
	})
	w := b.Connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	req := control.ClaimRequest{Refs: make([]store.Ref, n)}
	fin := control.FinishRequest{Finishes: make([]store.Finish, n)}
	for i := range n {
		req.Refs[i] = store.Ref{Job: job.NewID(), Generation: 1}
		fin.Finishes[i] = store.Finish{LeaseRef: store.LeaseRef{Job: req.Refs[i].Job, Lease: 1}, Outcome: job.Succeeded, Result: big}
	}
	var reply control.ClaimReply
	insist(t, "claim", func() (err error) { reply, err = w.Claim(ctx, req); return err })
	if len(reply.Claimed) != n {
		t.Fatalf("%d claimed, want %d", len(reply.Claimed), n)
	}
	for i, c := range reply.Claimed {
		if c.Ref != req.Refs[i] || !bytes.Equal(c.Spec, big) {
			t.Fatalf("claim %d is damaged", i)
		}
	}
	if _, err := w.Finish(ctx, fin); !errors.Is(err, job.ErrTooLarge) || received.Load() != 0 {
		t.Errorf("%d MiB of results at once: %v, %d bytes were received; want %v", n, err, received.Load(), job.ErrTooLarge)
	}
	alone := control.FinishRequest{Finishes: slices.Clone(fin.Finishes[:1])}
	alone.Finishes[0].Result = json.RawMessage(`"` + strings.Repeat("x", control.MaxRequest) + `"`)
	if _, err := w.Finish(ctx, alone); !errors.Is(err, job.ErrTooLarge) || received.Load() != 0 {
		t.Errorf("a result above the limit: %v, %d bytes were received; want %v", err, received.Load(), job.ErrTooLarge)
	}
	const fit = 32 // the size of the largest result
	fin.Finishes = fin.Finishes[:fit]
	if _, err := w.Finish(ctx, fin); err != nil {
		t.Fatal(err)
	}
	if want := int64(fit * len(big)); received.Load() != want {
		t.Errorf("the dispatcher received %d bytes of results, want %d", received.Load(), want)
	}
}

// testOneAnswers checks that exactly one of several dispatchers receives a request.
func testOneAnswers(t *testing.T, start starter) {
	b := start(t, longAck)
	var calls atomic.Int64
	count := handler{claim: func(ctx context.Context, r control.ClaimRequest) (control.ClaimReply, error) {
		calls.Add(1)
		return echo{}.HandleClaim(ctx, r)
	}}
	for range 3 {
		serve(t, b.Connect(t), count)
	}
	w := b.Connect(t)
	insist(t, "claim", func() error { _, err := w.Claim(t.Context(), control.ClaimRequest{}); return err })
	before := calls.Load()
	const n = 100
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := w.Claim(t.Context(), control.ClaimRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := calls.Load() - before; got != n {
		t.Errorf("%d requests were handled %d times", n, got)
	}
}

// testServeDrains checks that a stopping dispatcher completes requests in progress.
func testServeDrains(t *testing.T, start starter) {
	b := start(t, longAck)
	taken, release := make(chan struct{}, 1), make(chan struct{})
	h := handler{claim: func(ctx context.Context, r control.ClaimRequest) (control.ClaimReply, error) {
		taken <- struct{}{}
		<-release
		if ctx.Err() != nil {
			return control.ClaimReply{}, ctx.Err()
		}
		return echo{}.HandleClaim(ctx, r)
	}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	q, w := b.Connect(t), b.Connect(t)
	go func() { served <- q.Serve(ctx, h) }()

	claimed := make(chan error, 1)
	go func() {
		for {
			_, err := w.Claim(t.Context(), control.ClaimRequest{})
			select {
			case <-release:
				claimed <- err
				return
			default: // not subscribed yet
			}
		}
	}()
	eventually(t, "the request", taken)
	stop()
	select {
	case err := <-served:
		t.Fatalf("Serve returned %v with a request unanswered", err)
	case <-time.After(moment):
	}
	close(release)
	if err := eventually(t, "the answer", claimed); err != nil {
		t.Errorf("claim: %v", err)
	}
	if err := eventually(t, "the end of Serve", served); err != nil {
		t.Errorf("serve: %v", err)
	}
}
