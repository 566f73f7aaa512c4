package worker

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/internal/worker/capacity"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/runtime/fake"
	"github.com/assay-run/assay/pkg/store"
)

const ttl = 30 * time.Second

// fleet is all peers of a worker, in memory and with the guards of the real store, so that faults
// can be injected between any two steps. real_test.go runs the same worker against the real queue
// and store.
type fleet struct {
	secrets control.Secrets // in the answer to every claim

	mu        sync.Mutex
	ready     chan *message
	jobs      map[job.ID]*row
	next      job.Lease
	onCancel  func(store.LeaseRef)
	onClasses func([]string)
	onAssign  func(control.Assignment) error
	beats     []control.HeartbeatRequest
	total     int           // results recorded
	ttl       time.Duration // of leases

	// Faults: before returns the error of a request that is not executed, after of a request whose
	// answer is lost. nil: none.
	before, after func(ctx context.Context, kind string) error
	room          int                // bytes of specs in an answer to a claim, besides the last spec; 0: no limit
	status        store.FinishStatus // answer of Finish instead of recording
}

type row struct {
	spec      json.RawMessage
	lease     job.Lease // of the current attempt, 0 if none
	cancel    bool
	done      bool
	result    job.Result
	recorded  int
	claims    int
	finishes  int // finish messages that arrived
	releases  []store.Release
	delivered *message
}

type message struct {
	f          *fleet
	ref        store.Ref
	mu         sync.Mutex
	acks, naks int
	touches    int
}

func (m *message) Ref() store.Ref      { return m.ref }
func (m *message) TraceParent() string { return "" }
func (m *message) Ack() error          { m.mu.Lock(); defer m.mu.Unlock(); m.acks++; return nil }
func (m *message) InProgress() error   { m.mu.Lock(); defer m.mu.Unlock(); m.touches++; return nil }
func (m *message) Nak(time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.naks++
	return nil
}

func (m *message) acked() int { m.mu.Lock(); defer m.mu.Unlock(); return m.acks }
func (m *message) naked() int { m.mu.Lock(); defer m.mu.Unlock(); return m.naks }

func newFleet() *fleet {
	return &fleet{ttl: ttl, ready: make(chan *message, 1<<16), jobs: map[job.ID]*row{}}
}

// submit makes a job deliverable and returns its id.
func (f *fleet) submit(t testing.TB, spec job.Spec) job.ID {
	t.Helper()
	if spec.Image == "" {
		spec.Image = "python"
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return f.submitRaw(raw)
}

func (f *fleet) submitRaw(raw []byte) job.ID {
	id := job.NewID()
	m := &message{f: f, ref: store.Ref{Job: id, Generation: 1}}
	f.mu.Lock()
	f.jobs[id] = &row{spec: raw, delivered: m}
	f.mu.Unlock()
	f.ready <- m
	return id
}

// assign assigns a job to the worker under a lease that counts from its last heartbeat but back.
// edit may change the message.
func (f *fleet) assign(t testing.TB, spec job.Spec, edit ...func(*control.Assignment)) (job.ID, error) {
	t.Helper()
	spec.Image = "python"
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	id := job.NewID()
	f.mu.Lock()
	f.next++
	f.jobs[id] = &row{spec: raw, lease: f.next}
	last := f.beats[len(f.beats)-1].Worker
	a := control.Assignment{
		Claimed: store.Claimed{Ref: store.Ref{Job: id, Generation: 1}, Lease: f.next, Tenant: "acme", Spec: raw},
		TTL:     job.Duration(f.ttl), StartedAt: last.StartedAt, Beat: last.Beat,
	}
	take := f.onAssign
	f.mu.Unlock()
	for _, e := range edit {
		e(&a)
	}
	return id, take(a)
}

// script returns a python job for the fake runtime.
func script(text string) job.Spec {
	return job.Spec{
		Policy:  json.RawMessage(`{"isolation":"task","enforce":"report","wall":"24h","artifacts":{"paths":["/workspace/**"]}}`),
		Program: job.Program{Python: &job.Python{Code: "# fake: " + text}},
	}
}

func (f *fleet) Fetch(ctx context.Context, n int, wait time.Duration, out chan<- queue.Message) (int, error) {
	return line(f.ready).Fetch(ctx, n, wait, out)
}

// faulty runs do between the faults.
func (f *fleet) faulty(ctx context.Context, kind string, do func()) error {
	if f.before != nil {
		if err := f.before(ctx, kind); err != nil {
			return err
		}
	}
	f.mu.Lock()
	do()
	f.mu.Unlock()
	if f.after != nil {
		return f.after(ctx, kind)
	}
	return nil
}

func (f *fleet) Claim(ctx context.Context, r control.ClaimRequest) (reply control.ClaimReply, err error) {
	err = f.faulty(ctx, "claim", func() {
		reply.TTL = job.Duration(f.ttl)
		specs := 0
		for _, ref := range r.Refs {
			j := f.jobs[ref.Job]
			c := store.Claimed{Ref: ref}
			if !j.done && !j.cancel { // the same worker gets the same lease again
				j.claims++
				if j.lease == 0 {
					f.next++
					j.lease = f.next
				}
				c.Lease, c.Tenant, c.Spec, c.QueuedMS = j.lease, "acme", j.spec, 7
				if f.room > 0 && r.Partial && specs >= f.room {
					c.Spec = nil
				}
				specs += len(c.Spec)
				if f.secrets != nil {
					reply.Secrets = map[job.ID]control.Secrets{ref.Job: f.secrets}
				}
			}
			reply.Claimed = append(reply.Claimed, c)
		}
	})
	return reply, err
}

func (f *fleet) Heartbeat(ctx context.Context, r control.HeartbeatRequest) (reply control.HeartbeatReply, err error) {
	err = f.faulty(ctx, "heartbeat", func() {
		f.beats = append(f.beats, r)
		reply.TTL, reply.Protocol = job.Duration(f.ttl), control.Protocol
		for _, l := range r.Leases {
			switch j := f.jobs[l.Job]; {
			case j.lease != l.Lease || j.done:
				reply.Lost = append(reply.Lost, l)
			case j.cancel:
				reply.Canceled = append(reply.Canceled, l)
			}
		}
	})
	return reply, err
}

func (f *fleet) Finish(ctx context.Context, r control.FinishRequest) (reply control.FinishReply, err error) {
	var bad error
	err = f.faulty(ctx, "finish", func() {
		for _, fin := range r.Finishes {
			j := f.jobs[fin.Job]
			j.finishes++
			switch {
			case f.status != "":
				reply.Statuses = append(reply.Statuses, f.status)
				continue
			case j.lease != fin.Lease:
				reply.Statuses = append(reply.Statuses, store.Fenced)
				continue
			case !j.done:
				j.recorded++
				f.total++
				bad = json.Unmarshal(fin.Result, &j.result)
			}
			j.done = true
			reply.Statuses = append(reply.Statuses, store.Recorded)
		}
	})
	return reply, errors.Join(err, bad)
}

func (f *fleet) Environment(context.Context, control.EnvironmentRequest) (control.EnvironmentReply, error) {
	return control.EnvironmentReply{}, job.ErrUnavailable // as with an older dispatcher
}

func (f *fleet) Release(ctx context.Context, r control.ReleaseRequest) (reply control.ReleaseReply, err error) {
	return reply, f.faulty(ctx, "release", func() {
		for _, rel := range r.Releases {
			if j := f.jobs[rel.Job]; j.lease == rel.Lease && !j.done {
				j.lease = 0
				j.releases = append(j.releases, rel)
			}
		}
	})
}

func (f *fleet) OnCancel(_ context.Context, _ string, cancel func(store.LeaseRef)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onCancel = cancel
	return nil
}

func (f *fleet) OnAssign(_ context.Context, _ string, assign func(control.Assignment) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onAssign = assign
	return nil
}

func (f *fleet) OnClasses(_ context.Context, _ string, hear func([]string)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onClasses = hear
	return nil
}

// row returns a copy of the row of a job.
func (f *fleet) row(id job.ID) row {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.jobs[id]
}

// bench is a worker on a fleet.
type bench struct {
	*fleet
	t       testing.TB
	rt      *fake.Runtime
	w       *Worker
	objects *object.Store
	stop    context.CancelFunc
	ended   chan struct{}
}

type option func(*Config, *Parts)

// start runs a worker, which the end of the test stops.
func start(t testing.TB, f *fleet, opts ...option) *bench {
	t.Helper()
	dir := t.TempDir()
	objects, err := object.Open(t.Context(), "file://"+filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	rt := fake.New(nil)
	cfg := Config{ID: "w1", InputCache: filepath.Join(dir, "inputs"), Memory: 4 * job.GiB}
	parts := Parts{Class: func(context.Context, string) (queue.Consumer, error) { return f, nil }, Control: f, Runtime: rt, Objects: objects}
	for _, o := range opts {
		o(&cfg, &parts)
	}
	w, err := New(cfg, parts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	b := &bench{fleet: f, t: t, rt: rt, w: w, objects: objects, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() { b.drained() })
	return b
}

// drained stops the worker and checks that it leaves nothing behind.
func (b *bench) drained() {
	b.stop()
	<-b.ended
	if n := len(b.w.leases.all()); n != 0 {
		b.t.Errorf("%d leases are still held", n)
	}
	if n := b.w.capacity.Busy(); n != 0 {
		b.t.Errorf("%d slots were never given back", n)
	}
	if used := b.w.capacity.Used(); used != (capacity.Need{}) {
		b.t.Errorf("capacity was never given back: %+v", used)
	}
	if n := b.rt.Live(); n != 0 {
		b.t.Errorf("%d runtime slots were never closed", n)
	}
}

// objectsLeft returns the keys in the object store.
func (b *bench) objectsLeft() (keys []string) {
	for o, err := range b.objects.List(context.Background(), "") {
		if err != nil {
			b.t.Error(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// until waits for cond, in a synctest bubble by the bubble's clock.
func (b *bench) until(what string, cond func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !cond(); {
		if time.Now().After(deadline) {
			b.t.Fatalf("never: %s", what)
		}
		pause.For(context.Background(), 5*time.Millisecond)
	}
}

// recorded waits for a job's result.
func (b *bench) recorded(id job.ID) job.Result {
	b.t.Helper()
	b.until("job is recorded and acknowledged", func() bool { r := b.row(id); return r.done && r.delivered.acked() > 0 })
	return b.row(id).result
}

// released waits for a job to be handed back.
func (b *bench) released(id job.ID) store.Release {
	b.t.Helper()
	b.until("job is handed back", func() bool { return len(b.row(id).releases) > 0 })
	return b.row(id).releases[0]
}
