package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

func drained(t *testing.T) {
	f := newFleet(t, shape{workers: 1, lease: 30 * time.Second})
	f.batch(12, always("sleep=3s"))
	eventually(t, "the worker is full", func() bool { return f.in(job.Running) == 8 })
	f.addWorker("worker1")
	f.workers[0].term(t) // its grace is one second
	if v := f.check(); v.again == 0 {
		t.Errorf("nothing was handed back: %+v", v)
	}
	if n := f.count("SELECT count(*) FROM jobs WHERE losses > 0 OR tries <> 1"); n > 0 {
		t.Errorf("%d jobs were charged", n)
	}
	if n := f.count("SELECT count(*) FROM attempts WHERE reason <> 'drained'"); n > 0 {
		t.Errorf("%d attempts were handed back for another reason", n)
	}
}

// rolling restarts every component while a batch runs.
func rolling(t *testing.T) {
	f := newFleet(t, shape{dispatchers: 2, workers: 2, lease: 30 * time.Second, env: []string{"ASSAY_GRACE=5s"}})
	n := *rollingJobs
	f.batch(n, always("sleep=20ms"))
	steps := []func(){
		func() { f.dispatchers[0].restart(t) }, func() { f.workers[0].restart(t) }, func() { f.restartNATS(nil) },
		func() { f.dispatchers[1].restart(t) }, func() { f.workers[1].restart(t) },
	}
	for i, step := range steps {
		eventually(t, "some more is done", func() bool { return f.in(job.Finished) > i*n/(len(steps)+2) })
		step()
	}
	v := f.check()
	if v.jobs != n {
		t.Errorf("%+v", v)
	}
	if c := f.count("SELECT count(*) FROM jobs WHERE losses > 0 OR tries <> 1"); c > 0 {
		t.Errorf("%d jobs were charged", c)
	}
	t.Logf("rolling restart of %d components: jobs %d, lost %d, doubled %d, charged 0, ran again %d", len(steps), v.jobs, v.lost, v.doubled, v.again)
}

// Three dispatchers schedule and reap side by side.
func splitLeader(t *testing.T) {
	f := newFleet(t, shape{dispatchers: 3, workers: 2, lease: 30 * time.Second})
	var wg sync.WaitGroup
	for _, api := range f.apis {
		wg.Go(func() {
			if _, err := f.submitBatch(api, 200, always("sleep=5ms")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if v := f.check(); v.jobs != 600 || v.again != 0 {
		t.Errorf("%+v", v)
	}
	if n := f.count("SELECT count(*) FROM jobs WHERE dispatch_gen <> 1 OR losses <> 0"); n > 0 {
		t.Errorf("%d jobs were dispatched twice", n)
	}
}

// skewed makes the clock of a database differ from the clock of all processes: its own now()
// shadows the system's.
func skewed(t *testing.T, by string) func(dsn string) {
	return func(dsn string) {
		db, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close(context.Background())
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{
			fmt.Sprintf(`CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT pg_catalog.now() + interval '%s' $$`, by),
			fmt.Sprintf(`ALTER DATABASE %s SET search_path = public, pg_catalog`, pgx.Identifier{u.Path[1:]}.Sanitize()),
		} {
			if _, err := db.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// All machines of the fleet are ten minutes off the database.
func clocksOff(t *testing.T) {
	for _, by := range []string{"10 minutes", "-10 minutes"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, shape{prepare: skewed(t, by)})
			var off float64
			if err := f.db.QueryRow(t.Context(), "SELECT extract(epoch FROM now() - clock_timestamp())::float8").Scan(&off); err != nil || off*off < 590*590 {
				t.Fatalf("the database is off by %v s, %v", off, err)
			}
			f.batch(50, always("sleep=10ms"))
			f.rested()
			if n := f.count("SELECT count(*) FROM jobs WHERE earlier <> 0 OR losses <> 0 OR outcome <> 'succeeded'"); n > 0 {
				t.Errorf("%d jobs felt it", n)
			}
			id := f.submit("sleep=5s") // longer than a lease
			f.until(id, job.Finished)
			if r := f.row(id); r.Losses != 0 {
				t.Errorf("heartbeats did not count: %+v", r)
			}
			id = f.submit("sleep=2s")
			f.until(id, job.Running)
			f.workers[0].kill()
			f.workers[0].start(t)
			f.until(id, job.Finished)
			f.check()
		})
	}
}

// A job that kills its worker each time is given up, and the others run.
func poison(t *testing.T) {
	f := newFleet(t, shape{lease: atLeast(2 * time.Second)})
	f.workers[0].kept = true
	id := f.submit("crash=now")
	f.batch(30, always("sleep=1s")) // repeatedly killed with the poison
	within(t, 5*time.Minute, "the poison is given up", func() bool { return f.row(id).State.Terminal() })
	if r := f.row(id); r.Outcome != string(job.Lost) || r.Tries != 0 {
		t.Errorf("%+v", r)
	}
	if r, err := f.api.Result(t.Context(), id); err != nil || !strings.Contains(r.Message, "poison, its start was the end of 3 workers") || len(r.Attempts) > 6 {
		t.Errorf("%+v, %v", r, err)
	}
	after := f.submit("")
	f.until(after, job.Finished)
	f.check()
	if n := f.count("SELECT count(*) FROM jobs WHERE outcome <> 'succeeded'"); n != 1 {
		t.Errorf("%d jobs did not succeed", n)
	}
}

// Cancels race claims, results and the reaper.
func cancelRaces(t *testing.T) {
	f := newFleet(t, shape{dispatchers: 2, workers: 2, lease: atLeast(4 * time.Second)})
	random := rand.New(rand.NewPCG(*seed, 30))
	var ids []job.ID
	for range 120 {
		ids = append(ids, f.submit(fmt.Sprintf("sleep=%dms", random.IntN(400))))
	}
	var wg sync.WaitGroup
	for i, id := range ids {
		api, pause := f.apis[i%2], time.Duration(random.IntN(1500))*time.Millisecond
		wg.Go(func() {
			<-time.After(pause)
			if _, err := api.Cancel(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	f.workers[0].kill()
	f.workers[0].start(t)
	wg.Wait()
	v := f.check()
	if v.jobs != len(ids) {
		t.Errorf("%+v", v)
	}
	if n := f.count("SELECT count(*) FROM jobs WHERE outcome NOT IN ('succeeded', 'canceled')"); n > 0 {
		t.Errorf("%d jobs ended otherwise", n)
	}
	t.Logf("%d of %d canceled", f.in(job.Canceled), len(ids))
}

func TestCancelLatency(t *testing.T) {
	t.Parallel()
	const n = 100
	f := newFleet(t, shape{workers: 2, slots: n / 2, lease: 30 * time.Second})
	var ids []job.ID
	for range n {
		ids = append(ids, f.submit("sleep=5m"))
	}
	eventually(t, "all run", func() bool { return f.in(job.Running) == n })
	var took []time.Duration
	for _, id := range ids {
		asked := time.Now()
		if _, err := f.api.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := f.api.Result(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(asked))
	}
	slices.Sort(took)
	t.Logf("cancel of a running job: p50 %v, p99 %v", took[n/2], took[n*99/100])
	if took[n*99/100] > 2*time.Second {
		t.Errorf("p99 %v is more than two seconds", took[n*99/100])
	}
	f.check()
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{lease: 6 * time.Second})
	b := f.batch(8, always("sleep=15s")) // longer than the second worker takes to start
	eventually(t, "all run", func() bool { return f.in(job.Running) == 8 })
	f.addWorker("worker1")
	f.ready()
	f.workers[0].kill()
	killed := time.Now()
	eventually(t, "all run elsewhere", func() bool {
		return f.count("SELECT count(*) FROM jobs WHERE batch_id = $1 AND worker = 'worker1' AND lease > 0", string(b)) == 8
	})
	if took := time.Since(killed); took > f.lease+5*time.Second {
		t.Errorf("the jobs of a killed worker ran again after %v, more than a lease and five seconds", took)
	} else {
		t.Logf("the jobs of a killed worker ran again after %v; the lease is %v", took, f.lease)
	}
	f.check()
}

// Deadlines pass while a job waits, and while it runs.
func deadlines(t *testing.T) {
	f := newFleet(t, shape{})
	s := scripted("sleep=3s")
	s.ExpiresIn = job.Duration(1500 * time.Millisecond)
	runs, err := f.api.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	f.until(runs.ID, job.Running)
	f.workers[0].nats.set(cut)
	waits := f.enqueue(s)
	f.until(waits, job.Finished)
	if r := f.row(waits); r.Outcome != string(job.Expired) || r.Lease != 0 {
		t.Errorf("while it waits: %+v", r)
	}
	f.workers[0].nats.set(whole)
	f.check()
}

const twoTenants = "ASSAY_TOKENS=token-of-a=a,token-of-b=b"

func (f *fleet) as(token string) *client.Client {
	api, err := client.New("http://"+f.listen(0), client.WithToken(token))
	if err != nil {
		f.t.Fatal(err)
	}
	return api
}

func capRecovers(t *testing.T) {
	tenants := filepath.Join(t.TempDir(), "tenants.json")
	if err := os.WriteFile(tenants, []byte(`[{"name": "a", "max_running": 2}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, shape{lease: atLeast(4 * time.Second), env: []string{twoTenants, "ASSAY_TENANTS_FILE=" + tenants}, unwatched: true})
	if _, err := f.submitBatch(f.as("token-of-a"), 6, always("sleep=1s")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cap is reached", func() bool { return f.in(job.Running) == 2 })
	f.addWorker("worker1")
	f.workers[0].kill()
	eventually(t, "all is done", func() bool {
		if n := f.count("SELECT count(*) FROM jobs WHERE state IN ('dispatched', 'running')"); n > 2 {
			t.Fatalf("%d jobs at once, 2 are allowed", n)
		}
		return f.in(job.Finished) == 6
	})
	f.check()
}

// One tenant floods; another repeatedly submits ten jobs.
func flood(t *testing.T) {
	f := newFleet(t, shape{env: []string{twoTenants}, unwatched: true})
	b := f.as("token-of-b")
	const rounds = 20
	// waits returns p50 and p95 of the time until a job of b starts, and until it ends.
	waits := func() (start, end [2]time.Duration) {
		ids := make([]string, rounds)
		for i := range ids {
			batch, err := f.submitBatch(b, 10, always("sleep=50ms"))
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = string(batch.ID)
			eventually(t, "ten jobs are done", func() bool {
				return f.count("SELECT count(*) FROM results WHERE batch_id = $1", ids[i]) == 10
			})
		}
		quantiles := func(column string) (q [2]time.Duration) {
			for i, at := range []string{"0.5", "0.95"} {
				q[i] = time.Millisecond * time.Duration(f.count(`SELECT round(1000 * percentile_cont(`+at+`)
					WITHIN GROUP (ORDER BY extract(epoch FROM `+column+` - created_at)))::bigint FROM jobs WHERE batch_id = ANY($1::uuid[])`, ids))
			}
			return q
		}
		return quantiles("started_at"), quantiles("ended_at")
	}
	idleStart, idleEnd := waits()
	n := *floodJobs
	a := f.as("token-of-a")
	tide, err := f.submitBatch(a, n, always("sleep=20ms"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the flood runs", func() bool { return f.in(job.Running) == 8 })
	start, end := waits()
	left := f.in(job.Queued)
	t.Logf("p50 and p95 of %d jobs: to start %v on an idle fleet, %v beside a flood of %d; to end %v, %v",
		10*rounds, idleStart, start, n, idleEnd, end)
	if left < n/4 {
		t.Errorf("of the flood of %d only %d were left when b's were done", n, left)
	}
	most := func(idle time.Duration) time.Duration { return time.Duration(*floodFactor * float64(idle)) }
	if start[1] > most(idleStart[1]) || end[1] > most(idleEnd[1]) {
		t.Errorf("beside a flood a job waits %v and takes %v, on an idle fleet %v and %v (p95)", start[1], end[1], idleStart[1], idleEnd[1])
	}
	if _, err := a.CancelBatch(t.Context(), tide.ID); err != nil {
		t.Fatal(err)
	}
	f.check()
}

// A worker dies between two artifacts. The record has both, of one attempt.
func halfUploaded(t *testing.T) {
	f := newFleet(t, shape{lease: atLeast(4 * time.Second)})
	id := f.submit("artifact=/workspace/a:first sleep=1500ms artifact=/workspace/b:second")
	eventually(t, "one artifact is stored", func() bool { return len(f.stored()) == 1 })
	f.workers[0].kill()
	f.workers[0].start(t)
	f.until(id, job.Finished)
	r, err := f.api.Result(t.Context(), id)
	if err != nil || len(r.Artifacts) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, a := range r.Artifacts {
		body, err := f.api.Artifact(t.Context(), id, a.Path)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(body)
		body.Close()
		if sum := sha256.Sum256(raw); err != nil || hex.EncodeToString(sum[:]) != a.SHA256 {
			t.Errorf("%s: %q is not what its sum says: %v", a.Path, raw, err)
		}
	}
	if v := f.judge(); v.lost+v.doubled+v.foreignArtifacts+v.missing+v.charged != 0 {
		t.Errorf("%+v", v)
	}
}
