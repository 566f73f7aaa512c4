package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// refusing is a store whose database refuses some rows.
type refusing struct {
	*Store
	t testing.TB
}

func newRefusing(t testing.TB) *refusing {
	r := &refusing{openTest(t, Config{RetryDelay: -1, PoisonWait: time.Millisecond, TakeBackAfter: time.Millisecond}), t}
	r.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by a test' USING ERRCODE = TG_ARGV[0]; END $$`)
	return r
}

func (r *refusing) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.db.Pool.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

func (r *refusing) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// refuse makes an event on some rows of a table fail: rows to which a condition on NEW or OLD applies.
func (r *refusing) refuse(table, event, sqlstate, when string) {
	r.t.Helper()
	r.exec(fmt.Sprintf(`CREATE TRIGGER refuse BEFORE %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION refuse('%s')`, event, table, when, sqlstate))
}

func (r *refusing) relent(table string) {
	r.t.Helper()
	r.exec(`DROP TRIGGER refuse ON ` + table)
}

// submit makes a batch of n jobs.
func (r *refusing) submit(n int) (batch job.ID, jobs []job.ID) {
	r.t.Helper()
	batch = job.NewID()
	var ns []store.NewJob
	for range n {
		j := store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: []byte(`{}`)}
		ns, jobs = append(ns, j), append(jobs, j.ID)
	}
	_, err := r.SubmitBatch(r.t.Context(), store.NewBatch{ID: batch, Tenant: "t", Callback: &job.Callback{URL: "https://example.org/"}}, ns)
	r.must(err)
	return batch, jobs
}

// run runs all queued jobs on a worker.
func (r *refusing) run() map[job.ID]store.Held {
	r.t.Helper()
	ds, err := r.Schedule(r.t.Context(), []string{"p"}, 1000)
	r.must(err)
	var claims []store.Claim
	for _, d := range ds {
		claims = append(claims, store.Claim{Ref: d.Ref, Worker: "w"})
	}
	claimed, err := r.Claim(r.t.Context(), time.Minute, claims)
	r.must(err)
	held := map[job.ID]store.Held{}
	for _, c := range claimed {
		if c.Lease != 0 {
			held[c.Job] = store.Held{LeaseRef: store.LeaseRef{Job: c.Job, Lease: c.Lease}, Worker: "w"}
		}
	}
	return held
}

func finishOf(h store.Held, message string) store.Finish {
	return store.Finish{LeaseRef: h.LeaseRef, Worker: h.Worker, Outcome: job.Succeeded, Result: []byte(`{"message":"` + message + `"}`)}
}

// finish records jobs as successes, in one call.
func (r *refusing) finish(held map[job.ID]store.Held, jobs ...job.ID) []store.FinishStatus {
	r.t.Helper()
	var fs []store.Finish
	for _, id := range jobs {
		fs = append(fs, finishOf(held[id], "of "+string(id)))
	}
	statuses, err := r.Store.Finish(r.t.Context(), fs)
	r.must(err)
	return statuses
}

// reap runs all steps of the reaper, none of which may fail.
func (r *refusing) reap() store.ReapStats {
	r.t.Helper()
	st, err := reapAll(r.t.Context(), r.Store)
	r.must(err)
	return st
}

// states returns the state and outcome of jobs.
func (r *refusing) states(jobs ...job.ID) (out []string) {
	r.t.Helper()
	for _, id := range jobs {
		var state, outcome string
		r.must(r.db.Pool.QueryRow(r.t.Context(), `SELECT state, coalesce(outcome, '') FROM jobs WHERE id = $1`, string(id)).Scan(&state, &outcome))
		out = append(out, strings.TrimSuffix(state+" "+outcome, " "))
	}
	return out
}

func (r *refusing) wantStates(jobs []job.ID, want ...string) {
	r.t.Helper()
	if got := r.states(jobs...); !slices.Equal(got, want) {
		r.t.Errorf("jobs are %q, want %q", got, want)
	}
}

// asides returns the progress of each job that is set aside.
func (r *refusing) asides() (all []store.Aside, ended map[job.ID]store.AsideEnd) {
	r.t.Helper()
	all, err := r.Asides(r.t.Context(), "", 1000)
	r.must(err)
	ended = map[job.ID]store.AsideEnd{}
	for _, a := range all {
		if a.Tenant != "t" || a.SQLState == "" || a.Error == "" || a.Call == "" {
			r.t.Errorf("set aside: %+v", a)
		}
		ended[a.Job] = a.Ended
	}
	return all, ended
}

func (r *refusing) wantAside(want map[job.ID]store.AsideEnd) {
	r.t.Helper()
	_, got := r.asides()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("set aside are %v, want %v", got, want)
	}
}

// retry records all jobs that are set aside, and checks that the batches are then complete.
func (r *refusing) retry(batches ...job.ID) {
	r.t.Helper()
	all, _ := r.asides()
	for _, a := range all {
		r.must(r.RetryAside(r.t.Context(), &store.Action{ID: job.NewID(), Actor: "ops", Action: "retry set-aside", Subject: string(a.ID)}, a.ID))
	}
	r.wantAside(map[job.ID]store.AsideEnd{})
	for _, b := range batches {
		vs, err := r.Verify(r.t.Context(), store.VerifyQuery{Batch: b})
		r.must(err)
		if len(vs[0].Problems) > 0 || !vs[0].Ended {
			r.t.Errorf("batch %s after the retry: %+v", b, vs[0])
		}
	}
}

func (r *refusing) message(id job.ID) string {
	r.t.Helper()
	raw, err := r.Result(r.t.Context(), "t", id)
	r.must(err)
	return string(raw)
}

// TestResultsThatAreRefused checks each way in which a row can refuse a result. All other results of the call
// are recorded, the leases end, and nothing is lost.
func TestResultsThatAreRefused(t *testing.T) {
	t.Parallel()
	t.Run("by the counter of their batch", func(t *testing.T) {
		t.Parallel()
		r := newRefusing(t)
		bad, a := r.submit(5)
		good, b := r.submit(5)
		held := r.run()
		r.exec(`UPDATE batch_counts SET total = 1 WHERE batch_id = $1`, string(bad))
		var mixed []job.ID
		for i := range a {
			mixed = append(mixed, a[i], b[i])
		}
		for i, s := range r.finish(held, mixed...) {
			if s != store.Recorded {
				t.Errorf("result %d is %s", i, s)
			}
		}
		if v, err := r.Batch(t.Context(), "t", good); err != nil || !v.Done() {
			t.Errorf("the other batch: %+v, %v", v, err)
		}
		r.wantStates(a, "finished succeeded", "finished succeeded", "finished succeeded", "finished succeeded", "finished succeeded")
		all, _ := r.asides()
		if len(all) != 4 {
			t.Fatalf("set aside: %+v", all)
		}
		for _, x := range all {
			if x.Ended != store.AsideUncounted || x.Bytes != 0 || x.SQLState != "23514" || x.Batch != bad || !strings.Contains(r.message(x.Job), "of "+string(x.Job)) {
				t.Errorf("set aside: %+v", x)
			}
		}
		for _, s := range r.finish(held, mixed...) { // repeated after an unknown commit
			if s != store.Recorded {
				t.Errorf("a repeated result is %s", s)
			}
		}
		if err := r.RetryAside(t.Context(), nil, all[0].ID); err == nil || !strings.Contains(err.Error(), "still rejects") {
			t.Errorf("a retry before the repair: %v", err)
		}
		r.exec(`UPDATE batch_counts SET total = 5, ended_at = NULL WHERE batch_id = $1`, string(bad))
		r.retry(bad, good)
	})
	t.Run("by a constraint on results", func(t *testing.T) {
		t.Parallel()
		r := newRefusing(t)
		batch, jobs := r.submit(3)
		held := r.run()
		r.exec(fmt.Sprintf(`ALTER TABLE results ADD CONSTRAINT refuse CHECK (body NOT LIKE '%%of %s%%')`, jobs[1]))
		r.finish(held, jobs...)
		r.wantStates(jobs, "finished succeeded", "finished lost", "finished succeeded")
		r.wantAside(map[job.ID]store.AsideEnd{jobs[1]: store.AsideRecorded})
		if m := r.message(jobs[1]); !strings.Contains(m, "an operator can record it") {
			t.Errorf("its result is %s", m)
		}
		if b, err := r.Batch(t.Context(), "t", batch); err != nil || !b.Done() || b.Outcomes[job.Lost] != 1 {
			t.Errorf("the batch: %+v, %v", b, err)
		}
		orphans, err := r.Orphans(t.Context(), []store.LeaseRef{held[jobs[1]].LeaseRef})
		if err != nil || len(orphans) != 0 {
			t.Errorf("its artifacts are taken for nobody's: %v, %v", orphans, err)
		}
		r.exec(`ALTER TABLE results DROP CONSTRAINT refuse`)
		r.retry(batch)
		r.wantStates(jobs, "finished succeeded", "finished succeeded", "finished succeeded")
		if m := r.message(jobs[1]); !strings.Contains(m, "of "+string(jobs[1])) {
			t.Errorf("after the retry its result is %s", m)
		}
	})
	t.Run("by a trigger on results", func(t *testing.T) {
		t.Parallel()
		r := newRefusing(t)
		batch, jobs := r.submit(3)
		held := r.run()
		r.refuse("results", "INSERT", "P0001", fmt.Sprintf(`NEW.id = '%s'`, jobs[0]))
		r.finish(held, jobs...)
		r.wantStates(jobs, "finished lost", "finished succeeded", "finished succeeded")
		r.wantAside(map[job.ID]store.AsideEnd{jobs[0]: store.AsideCounted})
		r.relent("results")
		r.retry(batch)
		r.wantStates(jobs, "finished succeeded", "finished succeeded", "finished succeeded")
	})
	t.Run("by a trigger on jobs", func(t *testing.T) {
		t.Parallel()
		r := newRefusing(t)
		batch, jobs := r.submit(3)
		held := r.run()
		r.refuse("jobs", "UPDATE", "XX001", fmt.Sprintf(`OLD.id = '%s'`, jobs[2]))
		r.finish(held, jobs...)
		r.wantStates(jobs, "finished succeeded", "finished succeeded", "running")
		r.wantAside(map[job.ID]store.AsideEnd{jobs[2]: store.AsideHeld})
		for range 3 { // it is skipped without delaying others
			_, more := r.submit(1)
			r.exec(`ALTER TABLE jobs DISABLE TRIGGER refuse`)
			r.exec(`UPDATE jobs SET lease_until = now() - interval '1 second' WHERE id = $1`, string(jobs[2]))
			r.exec(`UPDATE jobs SET expires_at = now() - interval '1 second' WHERE id = $1`, string(more[0]))
			r.exec(`ALTER TABLE jobs ENABLE TRIGGER refuse`)
			r.reap()
			r.wantStates(more, "finished expired")
		}
		all, _ := r.asides()
		if err := r.DropAside(t.Context(), nil, all[0].ID); err == nil {
			t.Error("a job that is not over is dropped")
		}
		r.relent("jobs")
		r.retry(batch)
		r.wantStates(jobs, "finished succeeded", "finished succeeded", "finished succeeded")
	})
	t.Run("of a single job", func(t *testing.T) {
		t.Parallel()
		r := newRefusing(t)
		id := job.NewID()
		_, _, err := r.SubmitJob(t.Context(), store.NewJob{ID: id, Tenant: "t", Pool: "p", Spec: []byte(`{}`)}, store.Idempotency{}, 0)
		r.must(err)
		held := r.run()
		r.refuse("results", "INSERT", "22P02", `NEW.body LIKE '%of %'`)
		if s := r.finish(held, id); s[0] != store.Recorded {
			t.Errorf("it is %s", s[0])
		}
		r.wantStates([]job.ID{id}, "finished lost")
		r.relent("results")
		r.retry()
		r.wantStates([]job.ID{id}, "finished succeeded")
	})
	t.Run("by a statement that is broken", func(t *testing.T) {
		t.Parallel()
		r := newRefusing(t)
		_, jobs := r.submit(2)
		held := r.run()
		r.exec(`ALTER TABLE attempts RENAME COLUMN message TO elsewhere`)
		fs := []store.Finish{finishOf(held[jobs[0]], "a"), finishOf(held[jobs[1]], "b")}
		if _, err := r.Store.Finish(t.Context(), fs); err == nil {
			t.Error("it is recorded")
		}
		r.wantAside(map[job.ID]store.AsideEnd{})
		r.exec(`ALTER TABLE attempts RENAME COLUMN elsewhere TO message`)
		r.finish(held, jobs...)
		r.wantStates(jobs, "finished succeeded", "finished succeeded")
	})
}

// TestRowsThatAreRefused checks every statement that workers and the reaper share. A refused row is set aside
// or skipped, and all others are done.
func TestRowsThatAreRefused(t *testing.T) {
	t.Parallel()
	const over = `UPDATE jobs SET lease_until = now() - interval '1 second' WHERE state = 'running'`
	for _, c := range []struct {
		name string
		do   func(r *refusing, jobs []job.ID, batch job.ID)
		want []string // the second of three is refused
		end  store.AsideEnd
	}{
		{"claim", func(r *refusing, jobs []job.ID, _ job.ID) {
			ds, err := r.Schedule(r.t.Context(), []string{"p"}, 1000)
			r.must(err)
			r.refuse("jobs", "UPDATE", "23514", fmt.Sprintf(`OLD.id = '%s' AND NEW.state = 'running'`, jobs[1]))
			var claims []store.Claim
			for _, d := range ds {
				claims = append(claims, store.Claim{Ref: d.Ref, Worker: "w"})
			}
			claimed, err := r.Claim(r.t.Context(), time.Minute, claims)
			r.must(err)
			for _, c := range claimed {
				if (c.Lease == 0) != (c.Job == jobs[1]) || c.Later {
					r.t.Errorf("claimed %+v", c)
				}
			}
		}, []string{"running", "finished lost", "running"}, store.AsideRecorded},
		{"heartbeat", func(r *refusing, jobs []job.ID, _ job.ID) {
			held := r.run()
			r.refuse("jobs", "UPDATE", "23514", fmt.Sprintf(`OLD.id = '%s' AND NEW.state = 'running'`, jobs[1]))
			lost, _, err := r.Heartbeat(r.t.Context(), time.Minute, []store.Held{held[jobs[0]], held[jobs[1]], held[jobs[2]]})
			r.must(err)
			if len(lost) != 1 || lost[0].Job != jobs[1] {
				r.t.Errorf("lost are %v", lost)
			}
		}, []string{"running", "running", "running"}, ""},
		{"release", func(r *refusing, jobs []job.ID, _ job.ID) {
			held := r.run()
			r.refuse("attempts", "INSERT", "23514", fmt.Sprintf(`NEW.job_id = '%s'`, jobs[1]))
			var rs []store.Release
			for _, id := range jobs {
				rs = append(rs, store.Release{LeaseRef: held[id].LeaseRef, Worker: "w", Reason: job.ReasonInfra, Message: "why"})
			}
			r.must(r.Release(r.t.Context(), rs))
		}, []string{"queued", "finished lost", "queued"}, store.AsideRecorded},
		{"leases that are over", func(r *refusing, jobs []job.ID, _ job.ID) {
			r.run()
			r.exec(over)
			r.refuse("attempts", "INSERT", "XX000", fmt.Sprintf(`NEW.job_id = '%s'`, jobs[1]))
			r.reap()
		}, []string{"queued", "finished lost", "queued"}, store.AsideRecorded},
		{"leases that are over and cannot end", func(r *refusing, jobs []job.ID, _ job.ID) {
			r.run()
			r.exec(over)
			r.refuse("jobs", "UPDATE", "P0001", fmt.Sprintf(`OLD.id = '%s'`, jobs[1]))
			r.reap()
			r.reap()
		}, []string{"queued", "running", "queued"}, store.AsideHeld},
		{"jobs that are overdue", func(r *refusing, jobs []job.ID, _ job.ID) {
			r.exec(`UPDATE jobs SET expires_at = now() - interval '1 second'`)
			r.refuse("results", "INSERT", "23514", fmt.Sprintf(`NEW.id = '%s'`, jobs[1]))
			r.reap()
		}, []string{"finished expired", "finished expired", "finished expired"}, store.AsideCounted},
		{"jobs that are overdue, of a counter that drifted", func(r *refusing, jobs []job.ID, batch job.ID) {
			r.exec(`UPDATE jobs SET expires_at = now() - interval '1 second' WHERE id = $1`, string(jobs[1]))
			r.exec(`UPDATE batch_counts SET total = 0, ended_at = now() WHERE batch_id = $1`, string(batch))
			r.reap()
		}, []string{"queued", "finished expired", "queued"}, store.AsideUncounted},
		{"cancel of a batch", func(r *refusing, jobs []job.ID, batch job.ID) {
			r.refuse("results", "INSERT", "42883", fmt.Sprintf(`NEW.id = '%s'`, jobs[1]))
			_, err := r.CancelBatch(r.t.Context(), batch)
			r.must(err)
			r.reap()
		}, []string{"canceled canceled", "canceled canceled", "canceled canceled"}, store.AsideCounted},
		{"cancel of a batch that runs", func(r *refusing, jobs []job.ID, batch job.ID) {
			r.run()
			r.refuse("jobs", "UPDATE", "23514", fmt.Sprintf(`OLD.id = '%s'`, jobs[1]))
			running, err := r.CancelBatch(r.t.Context(), batch)
			r.must(err)
			if len(running) != 2 {
				r.t.Errorf("to be told are %v", running)
			}
			r.reap()
		}, []string{"running", "running", "running"}, ""},
		{"poison", func(r *refusing, jobs []job.ID, _ job.ID) {
			r.exec(`INSERT INTO blames (job_id, lease, worker, worker_since) SELECT id, n, 'gone', now() FROM jobs, generate_series(1, 3) n`)
			r.refuse("results", "INSERT", "23514", fmt.Sprintf(`NEW.id = '%s'`, jobs[1]))
			r.reap()
		}, []string{"finished lost", "finished lost", "finished lost"}, store.AsideCounted},
		{"jobs that nobody claims", func(r *refusing, jobs []job.ID, _ job.ID) {
			_, err := r.Schedule(r.t.Context(), []string{"p"}, 1000)
			r.must(err)
			r.exec(`UPDATE jobs SET dispatched_at = now() - interval '1 hour'`)
			r.refuse("jobs", "UPDATE", "23514", fmt.Sprintf(`OLD.id = '%s'`, jobs[1]))
			r.reap()
		}, []string{"queued", "dispatched", "queued"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRefusing(t)
			batch, jobs := r.submit(3)
			c.do(r, jobs, batch)
			r.wantStates(jobs, c.want...)
			want := map[job.ID]store.AsideEnd{}
			if c.end != "" {
				want[jobs[1]] = c.end
			}
			r.wantAside(want)
		})
	}
}

// TestUpkeepPassesOverRefusedRows checks that statements that only clean up skip a refused row.
func TestUpkeepPassesOverRefusedRows(t *testing.T) {
	t.Parallel()
	const old = `now() - interval '3 days'`
	for _, c := range []struct{ name, setup, table, event, bad, left string }{
		{"blames", `INSERT INTO blames (job_id, lease, worker, blamed_at) SELECT gen_random_uuid(), n, 'w', ` + old + ` FROM generate_series(1, 600) n`,
			"blames", "DELETE", `OLD.lease = 7`, `SELECT count(*) FROM blames`},
		{"idempotency keys", `INSERT INTO idempotency_keys (tenant_id, key, hash, made, created_at) SELECT 1, n::text, '', gen_random_uuid(), ` + old + ` FROM generate_series(1, 600) n`,
			"idempotency_keys", "DELETE", `OLD.key = '7'`, `SELECT count(*) FROM idempotency_keys`},
		{"workers", `INSERT INTO workers (id, pool, version, slots, busy, draining, started_at, seen_at)
			SELECT n::text, 'p', '', 1, 0, false, now(), ` + old + ` FROM generate_series(1, 600) n`, "workers", "DELETE", `OLD.id = '7'`, `SELECT count(*) FROM workers`},
		{"batch leases", `WITH b AS (INSERT INTO batches (id, tenant_id, sealed_at) SELECT gen_random_uuid(), 1, now() FROM generate_series(1, 600) RETURNING id),
			c AS (INSERT INTO batch_counts (batch_id, total) SELECT id, 1 FROM b)
			INSERT INTO batch_leases (batch_id, ttl, until) SELECT id, row_number() OVER (), ` + old + ` FROM b`,
			"batch_leases", "UPDATE", `OLD.ttl = 7 AND NEW.lapsed`, `SELECT count(*) FROM batch_leases WHERE over_at IS NULL`},
		{"sessions", `INSERT INTO sessions (id, tenant_id, worker, spec, created_at) SELECT gen_random_uuid(), 1, 'w' || n, '{}', ` + old + ` FROM generate_series(1, 600) n`,
			"sessions", "UPDATE", `OLD.worker = 'w7'`, `SELECT count(*) FROM sessions WHERE state = 'live'`},
		{"history", `WITH b AS (INSERT INTO batches (id, tenant_id, name, sealed_at, created_at)
				SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 1, n::text, ` + old + `, ` + old + ` FROM generate_series(1, 600) n RETURNING id)
			INSERT INTO batch_counts (batch_id, total, ended_at) SELECT id, 0, ` + old + ` FROM b`,
			"batches", "DELETE", `OLD.name = '7'`, `SELECT count(*) FROM batches`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRefusing(t)
			r.must(r.PutTenant(t.Context(), store.Tenant{Name: "t", Weight: 1}))
			r.reap() // a first look renews the leases of batches
			r.exec(c.setup)
			r.refuse(c.table, c.event, "23514", c.bad)
			var left int
			for range 5 { // each takes a second at most
				r.reap()
				_, err := r.ReapSessions(t.Context(), time.Minute)
				r.must(err)
				_, err = r.Forget(t.Context(), time.Hour)
				r.must(err)
				if r.must(r.db.Pool.QueryRow(t.Context(), c.left).Scan(&left)); left <= 1 {
					break
				}
			}
			if left != 1 {
				t.Errorf("%d are left, want the one that is refused", left)
			}
		})
	}
}
