package chaos

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"context"

	"github.com/assay-run/assay/pkg/job"
)

// consumers sums a figure of the queue's consumers.
func (f *fleet) consumers(of func(*jetstream.ConsumerInfo) int) (n int) {
	f.stream(func(ctx context.Context, js jetstream.JetStream) {
		s, err := js.Stream(ctx, "JOBS")
		if err != nil {
			return
		}
		for c := range s.ListConsumers(ctx).Info() {
			n += of(c)
		}
	})
	return n
}

// redelivered returns the number of messages that were redelivered and are not acknowledged yet.
func (f *fleet) redelivered() int {
	return f.consumers(func(c *jetstream.ConsumerInfo) int { return c.NumRedelivered })
}

// deliveries returns the number of deliveries of all messages.
func (f *fleet) deliveries() int {
	return f.consumers(func(c *jetstream.ConsumerInfo) int { return int(c.Delivered.Consumer) })
}

// One message is with two workers at once, and both claim it: one claim wins, the other worker
// returns the message.
func deliveredTwice(t *testing.T) {
	f := newFleet(t, shape{workers: 2, lease: time.Minute})
	for _, w := range f.workers {
		w.nats.set(cut)
	}
	id := f.enqueue(scripted("sleep=1s"))
	eventually(t, "it is queued", func() bool { return f.queued() == 1 })
	f.dispatchers[0].postgres.set(frozen) // claims arrive, and have to wait
	for _, w := range f.workers {
		w.nats.set(whole)
	}
	eventually(t, "the message is delivered a second time", func() bool { return f.redelivered() == 1 })
	f.dispatchers[0].postgres.set(whole)
	f.until(id, job.Finished)
	if r := f.row(id); r.Tries != 1 || r.Losses != 0 {
		t.Errorf("%+v", r)
	}
	if v := f.check(); v.again != 0 || v.results != 1 {
		t.Errorf("%+v", v)
	}
}

// Postgres commits a record and its answer is lost. The answer of a claim is lost in row 13, and in
// the tests of the store.
func commitUnanswered(t *testing.T) {
	const jobs = 3
	f := newFleet(t, shape{lease: time.Minute})
	for range jobs {
		id := f.submit("sleep=1s")
		f.until(id, job.Running)
		first := f.row(id)
		f.unanswered(id, "state = CASE WHEN", func() bool { return f.row(id).State == job.Finished })
		f.until(id, job.Finished)
		if r := f.row(id); r.Outcome != string(job.Succeeded) || r.Tries != 1 || r.Lease != first.Lease {
			t.Errorf("claimed %+v, recorded %+v", first, r)
		}
	}
	if v := f.check(); v.results != jobs || v.again != 0 {
		t.Errorf("%+v", v)
	}
}

// unanswered makes the statement that contains a text wait for the row of a job. Then its answer is
// lost, once it has the row and is done. The row is locked rather than the table: a connection that
// has not prepared the statement needs the table for that, and this answer must arrive.
func (f *fleet) unanswered(id job.ID, text string, done func() bool) {
	f.t.Helper()
	defer f.dispatchers[0].postgres.set(whole)
	tx, err := f.db.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(f.t.Context(), "SELECT FROM jobs WHERE id = $1 FOR UPDATE", string(id)); err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, "the statement waits", func() bool {
		return f.count(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND position($1 in query) > 0`, text) > 0
	})
	f.dispatchers[0].postgres.set(deaf)
	if err := tx.Rollback(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, "the statement is executed", done)
}

// A worker without any processor time is silent past the redelivery of its message, but not past
// its lease. The second worker's claim is refused, and the first one's record counts.
func starvedPastAckWait(t *testing.T) {
	f := newFleet(t, shape{lease: 2 * time.Minute})
	id := f.enqueue(scripted("sleep=15s")) // longer than the second worker takes to start
	f.until(id, job.Running)
	// The worker has the answer to its claim when a heartbeat extends the lease. Paused before that, it would give the job back.
	lease := func() (at time.Time) {
		if err := f.db.QueryRow(t.Context(), `SELECT lease_until FROM jobs WHERE id = $1`, string(id)).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	first := lease()
	eventually(t, "a heartbeat extends the lease", func() bool { return lease().After(first) })
	before := f.row(id)
	f.addWorker("worker1")
	f.workers[0].pause()
	// To worker1, whose claim is refused and which drops it, or once more to worker0.
	eventually(t, "the message is delivered a second time", func() bool { return f.deliveries() > 1 })
	f.workers[0].resume()
	f.until(id, job.Finished)
	if r := f.row(id); r.Lease != before.Lease || r.Worker != "worker0" || r.Tries != 1 {
		t.Errorf("first %+v, then %+v", before, r)
	}
	if v := f.check(); v.again != 0 {
		t.Errorf("%+v", v)
	}
}
