package chaos

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// TestPools checks that a job goes only to workers that can run it. A job without such a worker
// stays queued with the reason. It runs once such a worker comes, or expires.
func TestPools(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{workers: -1})
	f.addWorker("plain", "ASSAY_MEMORY=2Gi")
	f.addWorker("gpu", "ASSAY_LABELS=gpu=a100,zone=b", "ASSAY_MEMORY=8Gi")
	f.addWorker("reserved", "ASSAY_IMAGES=cuda")
	f.ready()
	submit := func(change func(*job.Spec)) job.ID {
		s := scripted("")
		change(&s)
		a, err := f.api.Submit(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	needs := func(policy string, requires map[string]string) func(*job.Spec) {
		return func(s *job.Spec) { s.Policy, s.Requires = json.RawMessage(policy), requires }
	}
	for want, change := range map[string]func(*job.Spec){
		"gpu":          needs(`{"enforce":"report"}`, map[string]string{"gpu": "a100"}),
		"gpu ":         needs(`{"enforce":"report","memory":"3Gi"}`, nil),
		"gpu  ":        needs(`{"enforce":"report","memory":"7Gi"}`, map[string]string{"zone": "b"}),
		"plain, gpu":   needs(`{"enforce":"report","memory":"1900Mi"}`, nil),
		"gpu, plain":   func(*job.Spec) {},
		"any of three": func(s *job.Spec) { s.Image = "cuda" },
	} {
		for range 5 {
			id := submit(change)
			f.until(id, job.Finished)
			if j, err := f.api.Job(t.Context(), id, 0); err != nil || !strings.Contains(want, j.Worker) && want != "any of three" {
				t.Errorf("a job for %q ran on %s (pool %s), %v", want, j.Worker, j.Pool, err)
			}
		}
	}
	waits := submit(needs(`{"enforce":"report"}`, map[string]string{"gpu": "h100"}))
	expires := submit(func(s *job.Spec) {
		s.Requires, s.ExpiresIn = map[string]string{"tpu": "5"}, job.Duration(2*time.Second)
	})
	j, err := f.api.Job(t.Context(), waits, 0)
	if err != nil || j.State != job.Queued || !strings.Contains(j.Message, "label gpu=h100") {
		t.Errorf("%s, %q, %v", j.State, j.Message, err)
	}
	f.until(expires, job.Finished)
	if r := f.row(expires); r.Outcome != string(job.Expired) {
		t.Errorf("%+v", r)
	}
	f.addWorker("late", "ASSAY_LABELS=gpu=h100")
	f.until(waits, job.Finished)
	if j, err := f.api.Job(t.Context(), waits, 0); err != nil || j.Worker != "late" || j.Message != "" {
		t.Errorf("%+v, %v", j, err)
	}
}

// specs submits jobs as one batch.
func (f *fleet) specs(api *client.Client, specs ...job.Spec) job.ID {
	f.t.Helper()
	var lines bytes.Buffer
	for _, s := range specs {
		if err := json.NewEncoder(&lines).Encode(s); err != nil {
			f.t.Fatal(err)
		}
	}
	b, err := api.SubmitBatch(f.t.Context(), client.BatchOptions{}, &lines)
	if err != nil {
		f.t.Fatal(err)
	}
	return b.ID
}

// inPool returns n jobs that name a pool, or none.
func inPool(pool string, n int, script string) []job.Spec {
	s := scripted(script)
	s.Pool = pool
	return slices.Repeat([]job.Spec{s}, n)
}

// TestTwoPools checks that one fleet of dispatchers serves every pool. A job runs where its needs
// are met, or in the pool that it names; an exclusive pool runs only jobs that name it. A pool
// without workers delays no other jobs. Its jobs run once it has workers again, whatever was
// restarted meanwhile.
func TestTwoPools(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{workers: -1, dispatchers: 2, slots: 4, env: []string{"ASSAY_POOLS=apart?exclusive"}})
	f.addWorker("plain")
	f.addWorker("gpu", "ASSAY_POOL=gpu", "ASSAY_LABELS=gpu=a100")
	apart := f.addWorker("apart", "ASSAY_POOL=apart", "ASSAY_LABELS=tpu=5")
	f.ready()

	ranOn := func(batch job.ID) (workers []string) {
		t.Helper()
		eventually(t, "the batch is done", func() bool {
			return f.count("SELECT count(*) FROM jobs WHERE batch_id = $1 AND state <> 'finished'", string(batch)) == 0
		})
		rows, err := f.db.Query(t.Context(), "SELECT DISTINCT worker FROM jobs WHERE batch_id = $1 ORDER BY worker", string(batch))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var w string
			if err := rows.Scan(&w); err != nil {
				t.Fatal(err)
			}
			workers = append(workers, w)
		}
		return workers
	}
	labeled := func(pool, label, value string) job.Spec {
		s := scripted("")
		s.Pool, s.Requires = pool, map[string]string{label: value}
		return s
	}
	const n = 24
	batches := map[string]job.ID{
		"gpu,plain": f.specs(f.api, inPool("", 3*n, "sleep=100ms")...),
		"plain":     f.specs(f.api, inPool("default", n, "sleep=20ms")...),
		"gpu":       f.specs(f.api, append(inPool("gpu", n, "sleep=20ms"), labeled("", "gpu", "a100"), labeled("gpu", "gpu", "a100"))...),
		"apart":     f.specs(f.api, append(inPool("apart", n, "sleep=20ms"), labeled("apart", "tpu", "5"))...),
	}
	for want, batch := range batches {
		if got := strings.Join(ranOn(batch), ","); got != want {
			t.Errorf("jobs for %s ran on %s", want, got)
		}
	}
	for pool, worker := range map[string]string{"default": "plain", "gpu": "gpu", "apart": "apart"} {
		a, err := f.apis[1].Submit(t.Context(), inPool(pool, 1, "")[0]) // a single job
		if err != nil {
			t.Fatal(err)
		}
		f.until(a.ID, job.Finished)
		if j, err := f.api.Job(t.Context(), a.ID, 0); err != nil || j.Worker != worker || j.Pool != pool {
			t.Errorf("a job for pool %s: %+v, %v", pool, j, err)
		}
	}

	_, err := f.api.Submit(t.Context(), inPool("gup", 1, "")[0])
	if err == nil || !strings.Contains(err.Error(), `there is no pool "gup"; there are apart, default, gpu`) {
		t.Errorf("a pool that does not exist: %v", err)
	}
	a, err := f.api.Submit(t.Context(), labeled("", "tpu", "5"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := f.api.Job(t.Context(), a.ID, 0)
	if err != nil || j.State != job.Queued || !strings.Contains(j.Message, "pool apart could run it, if the job named it") {
		t.Errorf("what only an exclusive pool has: %s, %q, %v", j.State, j.Message, err)
	}
	if _, err := f.api.Cancel(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}

	apart.kill()
	waiting := f.specs(f.api, inPool("apart", n, "")...)
	if got := ranOn(f.specs(f.api, inPool("", n, "sleep=20ms")...)); slices.Contains(got, "apart") {
		t.Errorf("a worker that is not there ran something: %v", got)
	}
	f.dispatchers[0].kill()
	f.restartNATS(nil)
	f.dispatchers[0].start(t)
	if got := ranOn(f.specs(f.apis[1], inPool("", n, "sleep=20ms")...)); slices.Contains(got, "apart") {
		t.Errorf("a worker that is not there ran something: %v", got)
	}
	if done := f.count("SELECT count(*) FROM results WHERE batch_id = $1", string(waiting)); done != 0 {
		t.Errorf("%d jobs of a pool without workers are done", done)
	}
	apart.start(t)
	if got := ranOn(waiting); !slices.Equal(got, []string{"apart"}) {
		t.Errorf("jobs of a pool that came back ran on %v", got)
	}
	f.check()
}

// TestPoolsAreShared checks that a tenant which floods all pools, by name and without, gets no more
// of them than a tenant whose jobs name no pool.
func TestPoolsAreShared(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{workers: -1, slots: 4, env: []string{twoTenants}, unwatched: true})
	f.addWorker("plain")
	f.addWorker("gpu", "ASSAY_POOL=gpu")
	f.ready()
	a, b := f.as("token-of-a"), f.as("token-of-b")
	var floods []job.ID
	for _, pool := range []string{"", "default", "gpu"} {
		floods = append(floods, f.specs(a, inPool(pool, 2000, "sleep=20ms")...))
	}
	eventually(t, "the flood runs", func() bool { return f.in(job.Running) == 8 })
	own := f.specs(b, inPool("", 300, "sleep=20ms")...)
	eventually(t, "b's jobs are done", func() bool {
		return f.count("SELECT count(*) FROM results WHERE batch_id = $1", string(own)) == 300
	})
	beside := f.count(`SELECT count(*) FROM jobs WHERE batch_id <> $1 AND ended_at BETWEEN
		(SELECT min(created_at) FROM jobs WHERE batch_id = $1) AND (SELECT max(ended_at) FROM jobs WHERE batch_id = $1)`, string(own))
	share := 300 / float64(300+beside)
	t.Logf("b had %.0f %% while it wanted 300 slots", 100*share)
	if left := f.in(job.Queued); left == 0 {
		t.Error("the flood was over before b was")
	}
	if share < 0.35 {
		t.Errorf("b had %.0f %% of two pools that another tenant floods, 50 are its share", 100*share)
	}
	for _, id := range floods {
		if _, err := a.CancelBatch(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	f.check()
}
