package dispatcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	pool    = "default"
	tenant  = "acme"
	patient = 30 * time.Second // timeout for expected events, on a busy machine
	never   = time.Hour
)

// quick repairs within moments. Leases are long, since tests count runs: a lease that expires on a busy machine
// causes a second run.
var quick = dispatcher.Config{
	LeaseTTL: 10 * time.Second, ScheduleEvery: 200 * time.Millisecond, ReapEvery: 100 * time.Millisecond,
	RepublishAfter: 500 * time.Millisecond, RegistryEvery: 200 * time.Millisecond,
}

// fleet is a real store and a real queue.
type fleet struct {
	testing.TB
	store   store.Store
	natsURL string
	ackWait time.Duration
}

func newFleet(t testing.TB) *fleet {
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
	return &fleet{TB: t, store: s, natsURL: testenv.NATS(t), ackWait: patient}
}

func (f *fleet) connect() *jetstream.Queue {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patient)
	defer cancel()
	q, err := jetstream.Connect(ctx, jetstream.Config{URL: f.natsURL, AckWait: f.ackWait, Log: f.log()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(q.Close)
	return q
}

func (f *fleet) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(f.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// started is the start time of the tests' workers.
var started = time.Now()

// replica is one running dispatcher.
type replica struct {
	*dispatcher.Dispatcher
	stop func() // stops it and waits; may be called twice
}

// start runs a dispatcher on the given store and queue; nil: the fleet's.
func (f *fleet) start(cfg dispatcher.Config, s store.Store, q dispatcher.Queue) *replica {
	f.Helper()
	if s == nil {
		s = f.store
	}
	if q == nil {
		q = f.connect()
	}
	cfg.Log = f.log()
	d, err := dispatcher.New(cfg, s, q)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	r := &replica{d, sync.OnceFunc(func() {
		cancel()
		if err := testenv.Receive(f, "the end of a dispatcher", done); err != nil {
			f.Errorf("Run: %v", err)
		}
	})}
	f.Cleanup(r.stop)
	return r
}

func newJob() store.NewJob {
	return store.NewJob{ID: job.NewID(), Tenant: tenant, Pool: placement.Any, MaxAttempts: 1,
		Spec: []byte(`{"program":{"python":{"code":"print(1)"}}}`)}
}

// submit accepts n jobs as a batch.
func (f *fleet) submit(n int, edit ...func(*store.NewJob)) (batch job.ID, ids []job.ID) {
	f.Helper()
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = newJob()
		for _, e := range edit {
			e(&jobs[i])
		}
		ids = append(ids, jobs[i].ID)
	}
	batch, err := f.store.SubmitBatch(f.Context(), store.NewBatch{ID: job.NewID(), Tenant: tenant}, jobs)
	if err != nil {
		f.Fatal(err)
	}
	return batch, ids
}

// until waits for cond.
func (f *fleet) until(what string, cond func() bool) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patient)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			stats, err := f.store.Stats(context.WithoutCancel(ctx))
			f.Fatalf("timed out waiting until %s; live jobs: %+v %v", what, stats, err)
		}
	}
}

func (f *fleet) batch(id job.ID) *job.Batch {
	f.Helper()
	b, err := f.store.Batch(f.Context(), tenant, id)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// recordedOnce waits until a batch is done and checks that it has one result for each job.
func (f *fleet) recordedOnce(batch job.ID, ids []job.ID) {
	f.Helper()
	f.until("the batch is done", func() bool { return f.batch(batch).Done() })
	results, _, err := f.store.Results(f.Context(), tenant, batch, 0, 2*len(ids))
	if err != nil {
		f.Fatal(err)
	}
	seen := map[job.ID]int{}
	for _, raw := range results {
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			f.Fatal(err)
		}
		seen[r.ID]++
	}
	for _, id := range ids {
		if seen[id] != 1 {
			f.Errorf("job %s has %d results", id, seen[id])
		}
	}
	if len(results) != len(ids) {
		f.Errorf("%d results of %d jobs", len(results), len(ids))
	}
}

func (f *fleet) state(id job.ID) job.State {
	f.Helper()
	j, err := f.store.Job(f.Context(), tenant, id)
	if err != nil {
		f.Fatal(err)
	}
	return j.State
}

// program is the run of a job on a scripted worker. ctx ends if the job is canceled, its lease is lost or the worker
// is killed.
type program func(ctx context.Context, c store.Claimed) job.Outcome

func succeed(context.Context, store.Claimed) job.Outcome { return job.Succeeded }

// hang runs until the job's context ends.
func hang(ctx context.Context, _ store.Claimed) job.Outcome {
	<-ctx.Done()
	return job.OutcomeCanceled
}

// worker is a scripted worker on a real queue.
type worker struct {
	f       *fleet
	id      string
	slots   int
	q       *jetstream.Queue
	run     program
	silent  bool                           // sends no heartbeats
	noAck   bool                           // never acknowledges
	beat    int64                          // heartbeat number; 0: the worker is never assigned a job
	assign  func(control.Assignment) error // nil: it does not listen for assignments
	stop    func()
	refused counter
	fenced  counter

	mu    sync.Mutex
	runs  map[job.ID]int
	held  map[store.LeaseRef]context.CancelFunc
	beats sync.WaitGroup
	jobs  sync.WaitGroup
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add()     { c.mu.Lock(); defer c.mu.Unlock(); c.n++ }
func (c *counter) get() int { c.mu.Lock(); defer c.mu.Unlock(); return c.n }

func (f *fleet) work(id string, slots int, run program, edit ...func(*worker)) *worker {
	f.Helper()
	w := &worker{f: f, id: id, slots: slots, run: run, q: f.connect(), runs: map[job.ID]int{}, held: map[store.LeaseRef]context.CancelFunc{}}
	for _, e := range edit {
		e(w)
	}
	deliveries, err := w.q.Consumer(f.Context(), placement.Any)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	if err := w.q.OnCancel(ctx, id, w.cancel); err != nil {
		f.Fatal(err)
	}
	if w.assign != nil {
		if err := w.q.OnAssign(ctx, id, w.assign); err != nil {
			f.Fatal(err)
		}
	}
	w.beats.Go(func() { w.heartbeats(ctx) })
	w.jobs.Go(func() { w.take(ctx, deliveries) })
	w.stop = sync.OnceFunc(func() {
		cancel()
		w.jobs.Wait()
		w.beats.Wait()
	})
	f.Cleanup(w.stop)
	return w
}

// ran returns how often a job was run here.
func (w *worker) ran(id job.ID) int { w.mu.Lock(); defer w.mu.Unlock(); return w.runs[id] }

func (w *worker) total() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.runs {
		n += k
	}
	return n
}

func (w *worker) take(ctx context.Context, deliveries queue.Consumer) {
	slots := make(chan struct{}, w.slots)
	out := make(chan queue.Message, w.slots)
	for ctx.Err() == nil {
		slots <- struct{}{}
		n := 1
		for len(slots) < cap(slots) {
			slots <- struct{}{}
			n++
		}
		if _, err := deliveries.Fetch(ctx, n, 200*time.Millisecond, out); err != nil && !errors.Is(err, job.ErrUnavailable) {
			w.f.Errorf("fetch: %v", err)
		}
		var ms []queue.Message
		for len(out) > 0 {
			ms = append(ms, <-out)
		}
		for range n - len(ms) {
			<-slots
		}
		w.begin(ctx, ms, func() { <-slots })
	}
}

// begin claims and starts jobs.
func (w *worker) begin(ctx context.Context, ms []queue.Message, free func()) {
	req := control.ClaimRequest{Worker: w.id}
	for _, m := range ms {
		req.Refs = append(req.Refs, m.Ref())
	}
	if len(ms) == 0 {
		return
	}
	reply, err := insist(ctx, func() (control.ClaimReply, error) { return w.q.Claim(ctx, req) })
	if err != nil {
		for range ms {
			free()
		}
		return
	}
	if reply.Rest > 0 {
		for _, m := range ms {
			_ = m.Nak(10 * time.Millisecond)
			free()
		}
		return
	}
	for i, c := range reply.Claimed {
		if c.Lease == 0 || w.holds(c) {
			w.refused.add()
			if c.Lease == 0 {
				_ = ms[i].Ack()
			}
			free()
			continue
		}
		jobCtx, end := context.WithCancel(ctx)
		w.mu.Lock()
		w.held[store.LeaseRef{Job: c.Job, Lease: c.Lease}] = end
		w.runs[c.Job]++
		w.mu.Unlock()
		w.jobs.Go(func() {
			defer free()
			defer end()
			w.perform(ctx, jobCtx, c, ms[i])
		})
	}
}

// holds reports whether this worker already has the lease: claiming a redelivered job returns the same lease.
func (w *worker) holds(c store.Claimed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.held[store.LeaseRef{Job: c.Job, Lease: c.Lease}]
	return ok
}

func (w *worker) perform(ctx, jobCtx context.Context, c store.Claimed, m queue.Message) {
	ref := store.LeaseRef{Job: c.Job, Lease: c.Lease}
	defer func() {
		w.mu.Lock()
		delete(w.held, ref)
		w.mu.Unlock()
	}()
	outcome := w.run(jobCtx, c)
	result := fmt.Appendf(nil, `{"id":%q,"outcome":%q}`, c.Job, outcome)
	fin := control.FinishRequest{Worker: w.id, Finishes: []store.Finish{{LeaseRef: ref, BatchID: c.BatchID, Outcome: outcome, Result: result}}}
	reply, err := insist(ctx, func() (control.FinishReply, error) { return w.q.Finish(ctx, fin) })
	if err != nil {
		return // killed
	}
	if reply.Statuses[0] == store.Fenced {
		w.fenced.add()
	}
	if !w.noAck {
		_ = m.Ack()
	}
}

// insist repeats a request until it is answered, as a worker does.
func insist[R any](ctx context.Context, request func() (R, error)) (reply R, err error) {
	for {
		if reply, err = request(); err == nil || ctx.Err() != nil || !errors.Is(err, job.ErrUnavailable) {
			return reply, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return reply, ctx.Err()
		}
	}
}

func (w *worker) heartbeats(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if !w.silent {
			w.heartbeat(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) heartbeat(ctx context.Context) {
	w.mu.Lock()
	req := control.HeartbeatRequest{Worker: control.WorkerInfo{ID: w.id, Pool: pool, Slots: w.slots, Busy: len(w.held), StartedAt: started, Beat: w.beat}}
	for l := range w.held {
		req.Leases = append(req.Leases, l)
	}
	w.mu.Unlock()
	reply, err := w.q.Heartbeat(ctx, req)
	if err != nil {
		return // the next heartbeat may succeed
	}
	for _, l := range append(reply.Lost, reply.Canceled...) {
		w.cancel(l)
	}
}

func (w *worker) cancel(l store.LeaseRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end := w.held[l]; end != nil {
		end()
	}
}
