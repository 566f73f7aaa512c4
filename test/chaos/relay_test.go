package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	queue "github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// forgetful is a network that executes requests and loses the first answers.
type forgetful struct{ losses atomic.Int32 }

func (n *forgetful) RoundTrip(rq *http.Request) (*http.Response, error) {
	rs, err := http.DefaultTransport.RoundTrip(rq)
	if err == nil && rq.Method == http.MethodPost && n.losses.Add(-1) >= 0 {
		rs.Body.Close()
		return nil, errors.New("the connection was reset")
	}
	return rs, err
}

func lostAnswer(t *testing.T) {
	f := newFleet(t, shape{})
	net := &forgetful{}
	net.losses.Store(2)
	api, err := client.New("http://"+f.listen(0), client.WithHTTPClient(&http.Client{Transport: net}), client.WithPatience(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.submitBatch(api, 50, always("")); err != nil {
		t.Fatal(err)
	}
	net.losses.Store(1)
	if _, err := api.Submit(t.Context(), scripted("")); err != nil {
		t.Fatal(err)
	}
	if v := f.check(); v.jobs != 51 || v.attempts > v.results {
		t.Errorf("submitted 51 jobs: %+v", v)
	}
}

func keyOfAnother(t *testing.T) {
	f := newFleet(t, shape{})
	const line = `{"program": {"python": {"code": "%d"}}}` + "\n"
	status, first := f.post("/v1/batches", "application/x-ndjson", "the-key", fmt.Sprintf(line, 1))
	if status/100 != 2 {
		t.Fatalf("%d: %s", status, first)
	}
	again, second := f.post("/v1/batches", "application/x-ndjson", "the-key", fmt.Sprintf(line, 1))
	if id(t, first) != id(t, second) {
		t.Errorf("sent again: %d: %s, before: %s", again, second, first)
	}
	if status, answer := f.post("/v1/batches", "application/x-ndjson", "the-key", fmt.Sprintf(line, 2)); status != http.StatusUnprocessableEntity {
		t.Errorf("another body: %d: %s", status, answer)
	}
	if v := f.check(); v.jobs != 1 {
		t.Errorf("submitted one job: %+v", v)
	}
}

// When its dispatcher dies, a job is only in the database.
func diesBeforePublish(t *testing.T) {
	t.Run("to be claimed", diesBeforeMessage)
	t.Run("assigned", diesBeforeAssignment)
}

// Its lease belongs to a worker that was not informed, and expires.
func diesBeforeAssignment(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{})
	f.dispatchers[0].nats.set(frozen)
	go func() { _, _ = f.api.Submit(t.Context(), scripted("")) }() // answered before the assignment, or never
	eventually(t, "the job runs, as far as anybody knows", func() bool { return f.in(job.Running) == 1 })
	f.dispatchers[0].kill()
	f.dispatchers[0].nats.set(whole)
	f.dispatchers[0].start(t)
	f.rested()
	if n := f.count("SELECT count(*) FROM jobs WHERE outcome = 'succeeded' AND tries = 1 AND losses = 1"); n != 1 {
		t.Error("it did not run once after it had been lost once")
	}
	if v := f.check(); v.jobs != 1 {
		t.Errorf("%+v", v)
	}
}

func diesBeforeMessage(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{})
	f.dispatchers[0].nats.set(frozen)
	line, err := json.Marshal(scripted(""))
	if err != nil {
		t.Fatal(err)
	}
	go func() { // it is answered late, or never
		_, _ = f.api.SubmitBatch(t.Context(), client.BatchOptions{}, bytes.NewReader(line))
	}()
	eventually(t, "the job is dispatched", func() bool { return f.in(job.Dispatched) == 1 })
	f.dispatchers[0].kill()
	f.dispatchers[0].nats.set(whole)
	if n := f.queued(); n != 0 {
		t.Fatalf("%d messages were published", n)
	}
	f.dispatchers[0].start(t)
	f.stale()
	f.rested()
	if v := f.check(); v.attempts > v.results || v.again != 0 {
		t.Errorf("it ran more than once: %+v", v)
	}
}

// All messages are published when the dispatcher dies. Its successor publishes them again.
func diesAfterPublish(t *testing.T) {
	f := newFleet(t, shape{lease: 10 * time.Second, slots: 10})
	f.workers[0].nats.set(cut) // registered, but it takes no jobs
	f.batch(10, always(""))
	eventually(t, "ten messages are queued", func() bool { return f.queued() == 10 })
	f.dispatchers[0].kill()
	f.dispatchers[0].start(t)
	f.stale()
	eventually(t, "all is published again", func() bool {
		return f.count("SELECT count(*) FROM jobs WHERE published_at < now() - interval '10 minutes'") == 0
	})
	if n := f.queued(); n != 10 {
		t.Errorf("%d messages for 10 jobs", n)
	}
	f.workers[0].nats.set(whole)
	if v := f.check(); v.again != 0 {
		t.Errorf("some ran again: %+v", v)
	}
}

// The server executes the publish, but its answer never reaches the dispatcher.
func publishUnanswered(t *testing.T) {
	f := newFleet(t, shape{lease: 10 * time.Second, slots: 10})
	f.workers[0].nats.set(cut)
	f.dispatchers[0].nats.set(deaf)
	f.batch(10, always(""))
	eventually(t, "ten messages are queued", func() bool { return f.queued() == 10 })
	f.dispatchers[0].nats.set(whole)
	f.stale()
	f.workers[0].nats.set(whole)
	if v := f.check(); v.again != 0 {
		t.Errorf("some ran again: %+v", v)
	}
}

func publishPartlyQueued(t *testing.T) {
	const n = 100 // enough to be published in one batch
	f := newFleet(t, shape{lease: 10 * time.Second, slots: n})
	f.workers[0].nats.set(cut)
	f.batch(n, always(""))
	eventually(t, "some messages are queued", func() bool { return f.queued() == n })
	f.stream(func(ctx context.Context, js jetstream.JetStream) {
		s, err := js.Stream(ctx, "JOBS")
		if err != nil {
			t.Fatal(err)
		}
		for seq := s.CachedInfo().State.FirstSeq; seq < s.CachedInfo().State.FirstSeq+n; seq += 2 {
			if err := s.DeleteMsg(ctx, seq); err != nil {
				t.Fatal(err)
			}
		}
	})
	f.stale()
	eventually(t, "the lost half is queued again", func() bool { return f.queued() == n })
	f.workers[0].nats.set(whole)
	if v := f.check(); v.again != 0 {
		t.Errorf("some ran again: %+v", v)
	}
}

// The lease of a paused worker ends, and its job is published again and waits beside the old
// message. Then the worker resumes and acknowledges the old message.
func retryWhileHeld(t *testing.T) {
	f := newFleet(t, shape{})
	id := f.enqueue(scripted("sleep=1s"))
	f.until(id, job.Running)
	f.workers[0].pause()
	eventually(t, "it is dispatched anew", func() bool { r := f.row(id); return r.State == job.Dispatched && r.Gen == 2 })
	eventually(t, "both messages are there", func() bool { return f.queued() == 2 })
	f.workers[0].resume()
	f.until(id, job.Finished)
	if v := f.check(); v.again != 1 || f.row(id).Tries != 1 {
		t.Errorf("%+v; %+v", v, f.row(id))
	}
}

func natsDataDeleted(t *testing.T) {
	f := newFleet(t, shape{workers: 2})
	f.batch(300, always("sleep=50ms"))
	eventually(t, "a part is done", func() bool { return f.in(job.Finished) > 50 })
	f.restartNATS(func() {
		if err := os.RemoveAll(f.natsDir); err != nil {
			t.Fatal(err)
		}
	})
	f.check()
}

// NATS loses the messages and acknowledgements of the last moments: new messages are missing, and
// acknowledged ones are back.
func natsDataOld(t *testing.T) {
	f := newFleet(t, shape{workers: 2})
	f.batch(300, always("sleep=50ms"))
	eventually(t, "a part is done", func() bool { return f.in(job.Finished) > 20 })
	before := f.dir + "/before"
	f.restartNATS(func() {
		if err := os.CopyFS(before, os.DirFS(f.natsDir)); err != nil {
			t.Fatal(err)
		}
	})
	at := f.in(job.Finished)
	eventually(t, "more is done", func() bool { return f.in(job.Finished) > at+50 })
	f.restartNATS(func() {
		if err := errors.Join(os.RemoveAll(f.natsDir), os.Rename(before, f.natsDir)); err != nil {
			t.Fatal(err)
		}
	})
	f.check()
}

func natsRestarts(t *testing.T) {
	f := newFleet(t, shape{workers: 2})
	f.batch(400, always("sleep=40ms"))
	for i := range 4 {
		eventually(t, "some more is done", func() bool { return f.in(job.Finished) > 60*(i+1) })
		f.restartNATS(nil)
	}
	if v := f.check(); v.jobs != 400 {
		t.Errorf("%+v", v)
	}
}

// Messages of a finished job, a canceled job and a job that does not exist.
func staleMessages(t *testing.T) {
	f := newFleet(t, shape{})
	done := f.submit("")
	f.until(done, job.Finished)
	f.workers[0].nats.set(cut)
	canceled := f.enqueue(scripted(""))
	if _, err := f.api.Cancel(t.Context(), canceled); err != nil {
		t.Fatal(err)
	}
	q, err := queue.Connect(t.Context(), queue.Config{URL: "nats://" + f.natsAt, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var ds []store.Dispatch
	for _, id := range []job.ID{done, canceled, job.NewID()} {
		for gen := range job.Generation(3) {
			ds = append(ds, store.Dispatch{Ref: store.Ref{Job: id, Generation: gen + 1}, Pool: placement.Any})
		}
	}
	if err := q.Publish(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	f.workers[0].nats.set(whole)
	eventually(t, "they are dropped", func() bool { return f.queued() == 0 })
	if v := f.check(); v.jobs != 2 || f.row(done).Tries != 1 || f.row(canceled).Lease != 0 {
		t.Errorf("%+v; %+v; %+v", v, f.row(done), f.row(canceled))
	}
}

// listen returns the address of dispatcher i.
func (f *fleet) listen(i int) string {
	for _, env := range f.dispatchers[i].env {
		if at, ok := strings.CutPrefix(env, "ASSAY_LISTEN="); ok {
			return at
		}
	}
	return ""
}
