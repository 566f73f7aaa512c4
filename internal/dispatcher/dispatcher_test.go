package dispatcher_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/internal/dispatcher"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// TestBatch checks that several dispatchers and workers record every job once, and that both replicas notify their
// watchers.
func TestBatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := f.start(quick, nil, nil), f.start(quick, nil, nil)
	w1, w2 := f.work("w1", 8, succeed), f.work("w2", 8, succeed)
	batch, ids := f.submit(400)
	heardA, stopA := a.WatchBatch(batch)
	heardB, stopB := b.WatchBatch(batch)
	lastB, stopLast := b.WatchJob(ids[len(ids)-1])
	defer stopA()
	defer stopB()
	defer stopLast()
	a.Wake()
	f.recordedOnce(batch, ids)
	for name, heard := range map[string]<-chan struct{}{"a": heardA, "b": heardB, "b, of a job": lastB} {
		select {
		case <-heard:
		case <-time.After(patient):
			t.Errorf("dispatcher %s never told", name)
		}
	}
	for _, id := range ids {
		if n := w1.ran(id) + w2.ran(id); n != 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
	}
}

// TestFastPath checks that a job that was dispatched at its acceptance is published without the scheduler.
func TestFastPath(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.ScheduleEvery, cfg.RepublishAfter = never, never
	d := f.start(cfg, nil, nil)
	f.work("w1", 1, succeed)
	j := newJob()
	_, dispatched, err := f.store.SubmitJob(t.Context(), j, store.Idempotency{}, 100)
	if err != nil || dispatched == nil {
		t.Fatalf("dispatch %v, error %v", dispatched, err)
	}
	if err := d.Dispatch(t.Context(), []store.Dispatch{*dispatched}); err != nil {
		t.Fatal(err)
	}
	f.until("the job is recorded", func() bool { return f.state(j.ID) == job.Finished })
}

// TestRedelivery checks that a redelivered message does not run a job twice, after a long job or a lost
// acknowledgement.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.ackWait = 500 * time.Millisecond
	cfg := quick
	cfg.RepublishAfter = never
	d := f.start(cfg, nil, nil)
	slow := func(ctx context.Context, _ store.Claimed) job.Outcome {
		select {
		case <-time.After(3 * f.ackWait):
		case <-ctx.Done():
		}
		return job.Succeeded
	}
	w1, w2 := f.work("w1", 5, slow, func(w *worker) { w.noAck = true }), f.work("w2", 5, slow, func(w *worker) { w.noAck = true })
	batch, ids := f.submit(10)
	d.Wake()
	f.recordedOnce(batch, ids)
	f.until("deliveries came again and were refused", func() bool { return w1.refused.get()+w2.refused.get() >= len(ids) })
	if n := w1.total() + w2.total(); n != len(ids) {
		t.Errorf("%d runs of %d jobs", n, len(ids))
	}
}

// faultyQueue fails to publish, before or after it published.
type faultyQueue struct {
	dispatcher.Queue
	executed bool
}

func (q faultyQueue) Publish(ctx context.Context, ds []store.Dispatch) error {
	if q.executed {
		if err := q.Queue.Publish(ctx, ds); err != nil {
			return err
		}
	}
	return errors.Join(job.ErrUnavailable, errors.New("the test says so"))
}

// TestKilledBeforePublish checks that no job is lost if a dispatcher dies between its transaction and the publish, or
// between the publish and its answer.
func TestKilledBeforePublish(t *testing.T) {
	t.Parallel()
	for name, executed := range map[string]bool{"not published": false, "published, not known": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			cfg := quick
			cfg.RepublishAfter = never
			dying := f.start(cfg, nil, faultyQueue{f.connect(), executed})
			batch, ids := f.submit(20)
			w := f.work("w1", 20, succeed)
			dying.Wake()
			f.until("all are dispatched", func() bool { return f.batch(batch).Counts[job.Queued] == 0 })
			dying.stop()

			f.start(quick, nil, nil)
			f.recordedOnce(batch, ids)
			if w.total() != len(ids) {
				t.Errorf("%d runs of %d jobs", w.total(), len(ids))
			}
		})
	}
}

// TestStreamDeleted checks that no job is lost if JetStream loses all data while jobs are queued, delivered and
// running.
func TestStreamDeleted(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	d := f.start(quick, nil, nil)
	w := f.work("w1", 4, func(context.Context, store.Claimed) job.Outcome {
		time.Sleep(5 * time.Millisecond) // so that the loss affects jobs at every step
		return job.Succeeded
	})
	batch, ids := f.submit(300)
	d.Wake()
	for _, after := range []int64{20, 150} {
		f.until("some are recorded", func() bool { return f.batch(batch).Counts[job.Finished] >= after })
		f.deleteStream()
	}
	f.recordedOnce(batch, ids)
	if w.total() != len(ids) {
		t.Errorf("%d runs of %d jobs", w.total(), len(ids))
	}
}

func (f *fleet) deleteStream() {
	f.Helper()
	nc, err := nats.Connect(f.natsURL)
	if err != nil {
		f.Fatal(err)
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		f.Fatal(err)
	}
	if err := js.DeleteStream(f.Context(), "JOBS"); err != nil {
		f.Fatal(err)
	}
}

// TestCancel checks that a running job is canceled by a message, or by the next heartbeat if that message is lost.
func TestCancel(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	q := f.connect()
	d := f.start(quick, nil, q)
	w := f.work("w1", 2, hang)
	batch, ids := f.submit(2)
	d.Wake()
	f.until("both run", func() bool { return w.ran(ids[0])+w.ran(ids[1]) == 2 })
	for i, id := range ids {
		c, err := f.store.Cancel(t.Context(), id)
		if err != nil || c.State != job.Running || c.Worker != "w1" {
			t.Fatalf("cancel: %+v, %v", c, err)
		}
		if i == 0 {
			if err := q.SendCancel(c.Worker, c.LeaseRef); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		f.until("it is recorded", func() bool { return f.state(id) == job.Canceled })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("cancel %d took %v", i, took)
		}
	}
	f.recordedOnce(batch, ids)
}

// TestSilentWorker checks that the jobs of a silent worker run elsewhere, and that its later results are fenced.
func TestSilentWorker(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.LeaseTTL = time.Second
	d := f.start(cfg, nil, nil)
	release := make(chan struct{})
	late := f.work("late", 5, func(ctx context.Context, _ store.Claimed) job.Outcome {
		<-release
		return job.Failed
	}, func(w *worker) { w.silent = true })
	batch, ids := f.submit(5)
	f.publishAll(d)
	f.until("the silent worker has all", func() bool { return late.total() == len(ids) })

	w := f.work("w1", 5, succeed)
	f.recordedOnce(batch, ids)
	close(release)
	f.until("the late results are fenced", func() bool { return late.fenced.get() == len(ids) })
	if b := f.batch(batch); b.Outcomes[job.Succeeded] != int64(len(ids)) {
		t.Errorf("outcomes %v", b.Outcomes)
	}
	if w.total() != len(ids) {
		t.Errorf("%d runs of %d jobs", w.total(), len(ids))
	}
}

// publishAll dispatches all queued jobs, without a known worker.
func (f *fleet) publishAll(d *replica) {
	f.Helper()
	ds, err := f.store.Schedule(f.Context(), []string{placement.Any}, 1000)
	if err != nil {
		f.Fatal(err)
	}
	if err := d.Dispatch(f.Context(), ds); err != nil {
		f.Fatal(err)
	}
}

// faultyStore commits some results and returns an error for them.
type faultyStore struct {
	store.Store
	calls atomic.Int64
}

func (s *faultyStore) Finish(ctx context.Context, fs []store.Finish) ([]store.FinishStatus, error) {
	statuses, err := s.Store.Finish(ctx, fs)
	if s.calls.Add(1)%2 == 1 {
		return nil, job.ErrUnavailable
	}
	return statuses, err
}

func (s *faultyStore) Claim(ctx context.Context, ttl time.Duration, cs []store.Claim) ([]store.Claimed, error) {
	claimed, err := s.Store.Claim(ctx, ttl, cs)
	if s.calls.Add(1)%2 == 1 {
		return nil, job.ErrUnavailable
	}
	return claimed, err
}

// TestUnknownCommits checks that repeated claims and results change nothing if every other one was committed and
// reported as failed.
func TestUnknownCommits(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	d := f.start(quick, &faultyStore{Store: f.store}, nil)
	w := f.work("w1", 4, succeed)
	batch, ids := f.submit(50)
	d.Wake()
	f.recordedOnce(batch, ids)
	if w.total() != len(ids) || w.fenced.get() != 0 {
		t.Errorf("%d runs of %d jobs, %d fenced", w.total(), len(ids), w.fenced.get())
	}
}

// slowStore delays a result.
type slowStore struct {
	store.Store
	entered chan struct{}
	release chan struct{}
}

func (s *slowStore) Finish(ctx context.Context, fs []store.Finish) ([]store.FinishStatus, error) {
	s.entered <- struct{}{}
	<-s.release
	return s.Store.Finish(ctx, fs)
}

// TestStopAnswers checks that a stopping dispatcher answers the requests that it took.
func TestStopAnswers(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := &slowStore{f.store, make(chan struct{}, 1), make(chan struct{})}
	d := f.start(quick, s, nil)
	f.work("w1", 1, succeed)
	batch, ids := f.submit(1)
	d.Wake()
	testenv.Receive(t, "the result", s.entered)
	stopped := make(chan struct{})
	go func() { d.stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Fatal("stopped with a result unanswered")
	case <-time.After(300 * time.Millisecond):
	}
	close(s.release)
	testenv.Receive(t, "the stop", stopped)
	f.recordedOnce(batch, ids)
}
