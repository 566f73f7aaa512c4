package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/internal/worker"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/fake"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres"
)

// These tests run workers on the real queue and the real store, connected by a minimal dispatcher.
// Leases and the ack wait are short, so that steps of half a minute in production take seconds
// here.
const (
	leaseTTL = 3 * time.Second
	ackWait  = 2 * time.Second
	window   = 1000 // jobs dispatched ahead of the workers
)

// childURL makes this test binary a worker process, which a test kills.
const childURL = "ASSAY_TEST_WORKER_NATS"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the tests cause the worker's warnings
	if url := os.Getenv(childURL); url != "" {
		if err := runWorker(context.Background(), url, "victim", os.Getenv("ASSAY_OBJECTS_URL")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testenv.Main(m)
}

func runWorker(ctx context.Context, url, id, objectsURL string) error {
	return runWorkerOn(ctx, fake.New(nil), 8, url, id, objectsURL)
}

func runWorkerOn(ctx context.Context, rt runtime.Runtime, slots int, url, id, objectsURL string) error {
	q, err := jetstream.Connect(ctx, jetstream.Config{URL: url, Name: id, AckWait: ackWait, Log: slog.Default()})
	if err != nil {
		return err
	}
	defer q.Close()
	deliveries := func(ctx context.Context, _ string) (queue.Consumer, error) { return q.Consumer(ctx, "default") }
	objects, err := object.Open(ctx, objectsURL)
	if err != nil {
		return err
	}
	defer objects.Close()
	w, err := worker.New(
		worker.Config{ID: id, Slots: slots, Heartbeat: 300 * time.Millisecond, Margin: 500 * time.Millisecond, Grace: time.Second},
		worker.Parts{Class: deliveries, Control: q, Runtime: rt, Objects: objects})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// fleet is a queue, a store and the dispatcher between them.
type fleet struct {
	t       testing.TB
	url     string
	objects string
	store   *postgres.Store
	queue   *jetstream.Queue
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	ctx := t.Context()
	dsn, url := testenv.Postgres(t), testenv.NATS(t)
	if err := postgres.Migrate(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(ctx, postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	q, err := jetstream.Connect(ctx, jetstream.Config{URL: url, Name: "dispatcher", AckWait: ackWait, Log: slog.Default()})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, url: url, objects: "file://" + filepath.Join(t.TempDir(), "objects"), store: s, queue: q}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{}, 2)
	go func() { _ = q.Serve(serving, f); done <- struct{}{} }()
	go func() { f.schedule(serving); done <- struct{}{} }()
	t.Cleanup(func() {
		stop()
		testenv.Receive(t, "the end of serving", done)
		testenv.Receive(t, "the end of the schedule", done)
		q.Close()
		s.Close()
	})
	return f
}

// schedule dispatches and reaps until ctx ends.
func (f *fleet) schedule(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		ds, err := f.store.Schedule(ctx, []string{"default"}, window)
		if err == nil && len(ds) > 0 {
			err = f.queue.Publish(ctx, ds)
		}
		if n%10 == 0 {
			_, _ = f.store.ReapLeases(ctx)
			_, _ = f.store.Reap(ctx)
		}
		if err != nil && ctx.Err() == nil {
			f.t.Errorf("schedule: %v", err)
		}
	}
}

func (f *fleet) HandleClaim(ctx context.Context, r control.ClaimRequest) (control.ClaimReply, error) {
	claims := make([]store.Claim, len(r.Refs))
	for i, ref := range r.Refs {
		claims[i] = store.Claim{Ref: ref, Worker: r.Worker}
	}
	got, err := f.store.Claim(ctx, leaseTTL, claims)
	return control.ClaimReply{Claimed: got, TTL: job.Duration(leaseTTL)}, err
}

func (f *fleet) HandleHeartbeat(ctx context.Context, r control.HeartbeatRequest) (control.HeartbeatReply, error) {
	held := make([]store.Held, len(r.Leases))
	for i, l := range r.Leases {
		held[i] = store.Held{LeaseRef: l, Worker: r.Worker.ID}
	}
	lost, canceled, err := f.store.Heartbeat(ctx, leaseTTL, held)
	return control.HeartbeatReply{Lost: refsOf(lost), Canceled: refsOf(canceled), TTL: job.Duration(leaseTTL), Protocol: control.Protocol}, err
}

func (f *fleet) HandleFinish(ctx context.Context, r control.FinishRequest) (control.FinishReply, error) {
	for i := range r.Finishes {
		r.Finishes[i].Worker = r.Worker
	}
	statuses, err := f.store.Finish(ctx, r.Finishes)
	return control.FinishReply{Statuses: statuses}, err
}

func (f *fleet) HandleRelease(ctx context.Context, r control.ReleaseRequest) (control.ReleaseReply, error) {
	for i := range r.Releases {
		r.Releases[i].Worker = r.Worker
	}
	return control.ReleaseReply{}, f.store.Release(ctx, r.Releases)
}

func (f *fleet) HandleEnvironment(context.Context, control.EnvironmentRequest) (control.EnvironmentReply, error) {
	return control.EnvironmentReply{Off: true}, nil
}

func refsOf(held []store.Held) (refs []store.LeaseRef) {
	for _, h := range held {
		refs = append(refs, h.LeaseRef)
	}
	return refs
}

// worker starts a worker; stop drains it.
func (f *fleet) worker(id string) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	done := make(chan error, 1)
	go func() { done <- runWorker(ctx, f.url, id, f.objects) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := testenv.Receive(f.t, "the end of a worker", done); err != nil {
			f.t.Errorf("worker %s: %v", id, err)
		}
	})
	f.t.Cleanup(stop)
	return stop
}

func (f *fleet) submit(scripts ...string) (batch job.ID, ids []job.ID) {
	f.t.Helper()
	jobs := make([]store.NewJob, len(scripts))
	for i, text := range scripts {
		spec, err := json.Marshal(job.Spec{
			Image: "python", Policy: json.RawMessage(`{"enforce":"report","wall":"1h","artifacts":{"paths":["/workspace/**"]}}`),
			Program: job.Program{Python: &job.Python{Code: "# fake: " + text}},
		})
		if err != nil {
			f.t.Fatal(err)
		}
		jobs[i] = store.NewJob{ID: job.NewID(), Tenant: "acme", Pool: "default", MaxAttempts: 1, Spec: spec}
		ids = append(ids, jobs[i].ID)
	}
	batch, err := f.store.SubmitBatch(f.t.Context(), store.NewBatch{ID: job.NewID(), Tenant: "acme", Total: int64(len(jobs))}, jobs)
	if err != nil {
		f.t.Fatal(err)
	}
	return batch, ids
}

func (f *fleet) await(what string, limit time.Duration, cond func() bool) {
	f.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !cond(); <-tick.C {
		if time.Now().After(end) {
			f.t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func (f *fleet) running(n int64) func() bool {
	return func() bool {
		st, err := f.store.Stats(f.t.Context())
		return err == nil && st.Running == n
	}
}

// results waits for the whole batch and returns its results: each job once.
func (f *fleet) results(batch job.ID, n int, limit time.Duration) map[job.ID]job.Result {
	f.t.Helper()
	f.await("batch is done", limit, func() bool {
		b, err := f.store.Batch(f.t.Context(), "acme", batch)
		return err == nil && b.Done()
	})
	raws, _, err := f.store.Results(f.t.Context(), "acme", batch, 0, 10*n)
	if err != nil {
		f.t.Fatal(err)
	}
	out := make(map[job.ID]job.Result, n)
	for _, raw := range raws {
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			f.t.Fatal(err)
		}
		out[r.ID] = r
	}
	if len(raws) != n || len(out) != n {
		f.t.Fatalf("%d results for %d jobs, want %d", len(raws), len(out), n)
	}
	return out
}

func TestRealBatch(t *testing.T) {
	f := newFleet(t)
	f.worker("a")
	f.worker("b")
	scripts, want := make([]string, 300), make([]job.Outcome, 300)
	for i := range scripts {
		switch i % 4 {
		case 0:
			scripts[i], want[i] = "output=fine artifact=/workspace/x:y", job.Succeeded
		case 1:
			scripts[i], want[i] = "exit=3", job.Failed
		case 2:
			scripts[i], want[i] = "sleep=3ms exception=ValueError:no", job.Exception
		case 3:
			scripts[i], want[i] = "outcome=out_of_memory", job.OutOfMemory
		}
	}
	batch, ids := f.submit(scripts...)
	got := f.results(batch, len(ids), time.Minute)
	for i, id := range ids {
		if r := got[id]; r.Outcome != want[i] || len(r.Attempts) != 1 {
			t.Errorf("job %d: outcome %s after %d attempts, want %s", i, r.Outcome, len(r.Attempts), want[i])
		}
	}
}

func TestRealCancel(t *testing.T) {
	f := newFleet(t)
	f.worker("a")
	batch, ids := f.submit("sleep=1h")
	f.await("it runs", 20*time.Second, f.running(1))
	asked := time.Now()
	c, err := f.store.Cancel(t.Context(), ids[0])
	if err != nil || c.Worker != "a" {
		t.Fatalf("Cancel = %+v, %v", c, err)
	}
	if err := f.queue.SendCancel(c.Worker, c.LeaseRef); err != nil {
		t.Fatal(err)
	}
	if r := f.results(batch, 1, 20*time.Second)[ids[0]]; r.Outcome != job.OutcomeCanceled || r.State != job.Canceled {
		t.Errorf("result = %+v", r)
	}
	if took := time.Since(asked); took > 2*time.Second {
		t.Errorf("the cancel took %v, promised are 2s", took)
	}
}

// A worker process is killed in the middle of a batch. Every job is recorded once, and no job is
// charged for the attempts that died.
func TestRealKill9(t *testing.T) {
	f := newFleet(t)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childURL+"="+f.url, "ASSAY_OBJECTS_URL="+f.objects)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	scripts := slices.Repeat([]string{"sleep=600ms output=done artifact=/workspace/x:y"}, 30)
	batch, ids := f.submit(scripts...)
	f.await("the victim runs jobs", 20*time.Second, func() bool {
		st, err := f.store.Stats(t.Context())
		return err == nil && st.Running > 0
	})
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	f.worker("heir")
	lost := 0
	for id, r := range f.results(batch, len(ids), time.Minute) {
		if r.Outcome != job.Succeeded || r.Stdout.Text != "done" {
			t.Errorf("job %s: %+v", id, r)
		}
		if len(r.Attempts) > 1 {
			lost++
		}
	}
	if lost == 0 {
		t.Error("no attempt was lost: the test killed nobody")
	}
}

// A drained worker hands back its running jobs. The job's single attempt is still available to the
// next worker.
func TestRealDrain(t *testing.T) {
	f := newFleet(t)
	stop := f.worker("leaving")
	batch, ids := f.submit("sleep=20ms", "sleep=4s output=finally")
	f.await("the long one runs", 20*time.Second, f.running(1))
	stop() // kills after a second of grace
	f.await("nothing runs", 5*time.Second, f.running(0))
	f.worker("heir")
	r := f.results(batch, 2, time.Minute)[ids[1]]
	if r.Outcome != job.Succeeded || r.Stdout.Text != "finally" || len(r.Attempts) != 2 {
		t.Errorf("result = %+v", r)
	}
	if first := r.Attempts[0]; first.Reason != job.ReasonDrained || first.Worker != "leaving" {
		t.Errorf("first attempt = %+v, want drained", first)
	}
}

// BenchmarkRealNoop measures one worker on the real queue and store: everything except the HTTP API
// and the running of programs.
func BenchmarkRealNoop(b *testing.B) {
	f := newFleet(b)
	batch, _ := f.submit(slices.Repeat([]string{"exit=0"}, b.N)...)
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	b.ResetTimer()
	go func() { done <- runWorkerOn(ctx, fake.Noop(), 512, f.url, "noop", f.objects) }()
	f.await("batch is done", 10*time.Minute, func() bool {
		got, err := f.store.Batch(b.Context(), "acme", batch)
		return err == nil && got.Done()
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	stop()
	if err := testenv.Receive(b, "the end of the worker", done); err != nil {
		b.Error(err)
	}
}
