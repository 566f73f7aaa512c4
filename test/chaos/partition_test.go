package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/pkg/job"
)

// A worker without answers kills its jobs before their leases are over, by its own clock, and they
// run elsewhere.
func workerCutOff(t *testing.T) {
	f := newFleet(t, shape{lease: 6 * time.Second})
	id := f.submit("sleep=20s") // longer than the second worker takes to start, and the first one to give up
	f.until(id, job.Running)
	f.addWorker("worker1")
	f.ready()
	f.workers[0].nats.set(frozen)
	var over time.Time
	eventually(t, "another worker runs it", func() bool {
		r := f.row(id)
		if r.Worker == "worker0" && r.State == job.Running {
			if err := f.db.QueryRow(t.Context(), "SELECT coalesce(lease_until, now()) FROM jobs WHERE id = $1", string(id)).Scan(&over); err != nil {
				t.Fatal(err)
			}
		}
		return r.Worker == "worker1"
	})
	fenced := f.workers[0].said(t, "self-fenced")
	if fenced.IsZero() || !fenced.Before(over) {
		t.Errorf("its sandbox was killed at %v, its lease was over at %v", fenced, over)
	}
	f.workers[0].nats.set(whole)
	f.until(id, job.Finished)
	if r := f.row(id); r.Worker != "worker1" || r.Tries != 1 {
		t.Errorf("%+v", r)
	}
	f.check()
}

// said returns the time at which a process first logged a message.
func (p *process) said(t *testing.T, msg string) (at time.Time) {
	t.Helper()
	raw, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var l struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal(line, &l) == nil && l.Msg == msg {
			return l.Time
		}
	}
	return at
}

// ownPostgres starts a server that a test may break.
func ownPostgres(t *testing.T, dir string) *dev.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pg, err := dev.StartPostgres(ctx, dev.PostgresConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Stop(context.Background()) })
	return pg
}

func postgresAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pg")
	pg := ownPostgres(t, dir)
	f := newFleet(t, shape{workers: 2, postgres: pg, lease: atLeast(4 * time.Second)})
	f.batch(300, always("sleep=50ms"))
	eventually(t, "a part is done", func() bool { return f.in(job.Finished) > 50 })
	if err := pg.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	const one = `{"program": {"python": {"code": "1"}}}`
	for back := time.Now().Add(*downFor); time.Now().Before(back); {
		if status, answer := f.post("/v1/jobs", "application/json", "down", one); status != http.StatusServiceUnavailable {
			t.Errorf("without a database: %d: %s", status, answer)
		}
	}
	ownPostgres(t, dir)
	eventually(t, "jobs are accepted again", func() bool {
		status, _ := f.post("/v1/jobs", "application/json", "down", one)
		return status/100 == 2
	})
	if v := f.check(); v.jobs != 301 {
		t.Errorf("300 jobs and one under a key that was said often: %+v", v)
	}
}

// The object store is away for longer than an upload is retried.
func objectsAway(t *testing.T) {
	f := newFleet(t, shape{})
	away := f.objects + ".away"
	if err := os.Rename(f.objects, away); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.objects, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	id := f.submit("artifact=/workspace/out:content")
	eventually(t, "the attempt is a failure of ours", func() bool {
		return f.count("SELECT count(*) FROM attempts WHERE reason = 'infra'") > 0
	})
	if r := f.row(id); r.State.Terminal() {
		t.Errorf("recorded without its artifact: %+v", r)
	}
	if err := os.Remove(f.objects); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, f.objects); err != nil {
		t.Fatal(err)
	}
	f.until(id, job.Finished)
	r, err := f.api.Result(t.Context(), id)
	if err != nil || r.Outcome != job.Succeeded || len(r.Artifacts) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if v := f.check(); v.objects != 1 || f.row(id).Tries != 1 {
		t.Errorf("%+v; %+v", v, f.row(id))
	}
}

const ours = `FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'assay-dispatcher%'`

func connectionsKilled(t *testing.T) {
	f := newFleet(t, shape{workers: 2, lease: 10 * time.Second, connections: 3})
	stop, done := make(chan struct{}), make(chan struct{})
	var killed atomic.Int64
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			// Each lives long enough for a few statements, on a slow machine, too.
			if tag, err := f.db.Exec(context.Background(), "SELECT pg_terminate_backend(pid) "+ours+" AND backend_start < now() - interval '300 milliseconds'"); err == nil {
				killed.Add(tag.RowsAffected())
			}
		}
	}()
	f.batch(300, always("sleep=20ms"))
	eventually(t, "five connections are killed, and jobs end nevertheless", func() bool { return killed.Load() >= 5 && f.in(job.Finished) >= 60 })
	close(stop) // the progress in this way depends on how fast this machine connects
	<-done
	f.rested()
	if v := f.check(); v.jobs != 300 {
		t.Errorf("%+v", v)
	}
	if n := f.count("SELECT count(*) " + ours); n > 3 {
		t.Errorf("%d connections of 3", n)
	}
}

// deleteConsumers deletes all consumers of the stream, and requires at least one.
func deleteConsumers(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, "JOBS")
	if err != nil {
		return err
	}
	n := 0
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		if err := s.DeleteConsumer(ctx, name); err != nil {
			return err
		}
		n++
	}
	if names.Err() == nil && n == 0 {
		return errors.New("there is no consumer")
	}
	return names.Err()
}

// The stream and its consumer are deleted and changed by hand.
func streamByHand(t *testing.T) {
	f := newFleet(t, shape{workers: 2})
	f.batch(400, always("sleep=50ms"))
	for i, harm := range []func(ctx context.Context, js jetstream.JetStream) error{
		deleteConsumers,
		func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, "JOBS") },
		func(ctx context.Context, js jetstream.JetStream) error {
			s, err := js.Stream(ctx, "JOBS")
			if err != nil {
				return err
			}
			return s.Purge(ctx)
		},
	} {
		eventually(t, "some more is done", func() bool { return f.in(job.Finished) > 60*(i+1) })
		f.stream(func(ctx context.Context, js jetstream.JetStream) {
			eventually(t, fmt.Sprintf("harm %d is done", i), func() bool { return harm(ctx, js) == nil })
		})
	}
	f.check()
}
