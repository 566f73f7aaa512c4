package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func testCancel(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	t.Run("one job in each state", func(t *testing.T) {
		f := f.with(t)
		running := f.running(newJob("running"))
		f.submitJob(newJob("dispatched"))
		dispatched := f.schedule(10)[0]
		queued := f.submitJob(newJob("queued"))

		for _, id := range []job.ID{queued, dispatched.Job} {
			c, err := f.Cancel(ctx, id)
			f.must(err)
			if want := (store.Canceling{LeaseRef: store.LeaseRef{Job: id}, State: job.Canceled}); c != want {
				t.Errorf("got %+v, want %+v", c, want)
			}
			if r := f.result(id); r.Outcome != job.OutcomeCanceled || r.State != job.Canceled || len(r.Attempts) != 0 {
				t.Errorf("its record: %+v", r)
			}
		}
		if c := f.claim(dispatched.Ref)[0]; c.Lease != 0 {
			t.Error("a canceled job was claimed")
		}
		want := store.Canceling{LeaseRef: running, Worker: worker, State: job.Running}
		for range 2 { // a repeated call returns the same
			if c, err := f.Cancel(ctx, running.Job); err != nil || c != want {
				t.Errorf("got %+v, %v, want %+v", c, err, want)
			}
		}
		if got := f.finish(running, job.OutcomeCanceled); got != store.Recorded {
			t.Errorf("the worker's answer is %s", got)
		}
		if c, err := f.Cancel(ctx, running.Job); err != nil || c.State != job.Canceled || c.Worker != "" {
			t.Errorf("after the end: %+v, %v", c, err)
		}
		_, err := f.Cancel(ctx, job.NewID())
		f.mustBe(err, job.ErrNotFound)
	})
	t.Run("a batch", func(t *testing.T) {
		f := f.with(t)
		jobs := newJobs(4)
		other := newJobs(2)
		jobs[3].Pool = "gpu"
		id := f.submit(jobs...)
		ds := f.schedule(2)
		c := f.claim(ds[0].Ref)[0]
		f.submit(other...)
		running, err := f.CancelBatch(ctx, id)
		f.must(err)
		if want := []store.Canceling{{LeaseRef: leaseOf(c), Worker: worker, State: job.Running}}; !cmp.Equal(want, running) {
			t.Errorf("running %+v, want %+v", running, want)
		}
		f.finish(leaseOf(c), job.Succeeded) // it was faster than the cancel
		b := f.batch(id)
		if !b.Done() || b.Counts[job.Canceled] != 3 || b.Counts[job.Finished] != 1 || b.EndedAt.IsZero() || len(f.results(id, 10)) != 4 {
			t.Errorf("batch %+v", b)
		}
		f.wantState(other[0].ID, job.Queued)
		_, err = f.CancelBatch(ctx, job.NewID())
		f.mustBe(err, job.ErrNotFound)
	})
}

func testReap(t *testing.T, open Open) {
	f := newFixture(t, open, Options{InfraBudget: 2})
	ctx := t.Context()
	t.Run("leases", func(t *testing.T) {
		f := f.with(t)
		j := newJob("x")
		batch := f.submit(j)
		for i := range 2 {
			d := f.schedule(10)[0]
			if d.Generation != job.Generation(i+1) {
				t.Fatalf("generation %d", d.Generation)
			}
			got, err := f.Claim(ctx, time.Millisecond, []store.Claim{{Ref: d.Ref, Worker: worker}})
			f.must(err)
			var st store.ReapStats
			f.eventually("end of the lease", func() bool { st = f.reap(); return st.LeasesExpired == 1 })
			if st.JobsLost != int64(i) {
				t.Errorf("loss %d: %+v", i+1, st)
			}
			if s := f.finish(leaseOf(got[0]), job.Succeeded); s != store.Fenced {
				t.Errorf("finish under an ended lease is %s", s)
			}
		}
		if b := f.batch(batch); !b.Done() || b.Outcomes[job.Lost] != 1 {
			t.Errorf("batch %+v", b)
		}
		rs := f.results(batch, 10)
		if len(rs) != 1 || rs[0].ID != j.ID || rs[0].Labels["k"] != "v" || len(rs[0].Attempts) != 2 {
			t.Errorf("results %+v", rs)
		}
	})
	t.Run("expires_in", func(t *testing.T) {
		f := f.with(t)
		jobs := newJobs(3)
		for i := range jobs {
			jobs[i].ExpiresIn = 2 * time.Second // long enough to be claimed on a busy machine
		}
		batch := f.submit(jobs...)
		ds := f.schedule(2)
		c := f.claim(ds[0].Ref)[0] // in time: it may take as long as it likes
		n := int64(0)
		f.eventually("expiry", func() bool { n += f.reap().JobsExpired; return n == 2 })
		f.finish(leaseOf(c), job.Succeeded)
		b := f.batch(batch)
		if want := map[job.Outcome]int64{job.Succeeded: 1, job.Expired: 2}; !cmp.Equal(want, b.Outcomes) || !b.Done() {
			t.Errorf("batch %+v", b)
		}
		if f.reap().JobsExpired != 0 {
			t.Error("expired again")
		}
	})
	t.Run("overdue uploads", func(t *testing.T) { testOverdueUploads(f.with(t)) })
}

// Uploads expire even if one upload continues and more jobs are overdue than the reaper moves at once.
// Overdue jobs are not dispatched.
func testOverdueUploads(f *fixture) {
	ctx := f.Context()
	upload := newBatch()
	_, _, err := f.OpenBatch(ctx, upload)
	f.must(err)
	overdue := func(n int) []store.NewJob {
		jobs := newJobs(n)
		for i := range jobs {
			jobs[i].ExpiresIn = time.Millisecond
		}
		return jobs
	}
	f.must(f.AppendJobs(ctx, upload.ID, overdue(1100)))
	time.Sleep(2 * time.Millisecond) // the jobs after these are overdue later
	batch := f.submit(append(overdue(20), newJob("in time"))...)
	time.Sleep(2 * time.Millisecond)
	ds := f.schedule(8)
	if len(ds) != 1 || f.claim(ds[0].Ref)[0].Lease == 0 {
		f.Errorf("dispatched %d, want the one job that is in time", len(ds))
	}
	if n := f.reap().JobsExpired; n != 20 {
		f.Errorf("%d jobs expired beside an upload, want 20", n)
	}
	if b := f.batch(batch); b.Outcomes[job.Expired] != 20 {
		f.Errorf("batch %+v", b)
	}
	f.must(f.DropBatch(ctx, upload.ID))
}

func testRead(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	j := newJob("say \"hi\" \u2028 {")
	batch := f.submit(j)
	_, err := f.Result(ctx, tenant, j.ID)
	f.mustBe(err, job.ErrNotFound)
	c := f.run()[0]
	code := 0
	worker1 := job.Result{
		ID: "wrong", Name: "wrong", Outcome: "wrong", State: "wrong", Labels: map[string]string{"wrong": "x"}, TraceID: "wrong",
		Attempts: []job.Attempt{{Lease: 99}}, Message: `a "quoted" } message`, ExitCode: &code, Stdout: job.Output{Text: "2\n", Bytes: 2},
		Value: &job.Value{Type: "dict", Repr: "{}", JSON: json.RawMessage(`{"id":"mine","state":[1,{"x":"]"}]}`)},
		Usage: job.Usage{WallMS: 1.5}, Feedback: []string{"\\", "\x00"},
	}
	raw, err := json.Marshal(worker1)
	f.must(err)
	_, err = f.Finish(ctx, []store.Finish{{Worker: worker, LeaseRef: leaseOf(c), Outcome: job.Succeeded, Result: raw}})
	f.must(err)

	want := worker1
	want.ID, want.BatchID, want.Name, want.State, want.Outcome = j.ID, batch, "say \"hi\" \u2028 {", job.Finished, job.Succeeded
	want.Labels, want.TraceID = map[string]string{"k": "v"}, "0af7651916cd43dd8448eb211c80319c"
	want.Attempts = []job.Attempt{{Lease: c.Lease, Worker: worker, Outcome: job.Succeeded}}
	if diff := cmp.Diff(want, f.result(j.ID)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]job.Result{want}, f.results(batch, 10)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	got, err := f.Job(ctx, tenant, j.ID)
	f.must(err)
	if got.State != job.Finished || got.EndedAt.IsZero() || got.BatchID != batch || got.TraceID != want.TraceID || got.Spec.Name != want.Name || got.Result == nil {
		t.Errorf("job %+v", got)
	}

	t.Run("by its tenant only", func(t *testing.T) {
		f := f.with(t)
		for _, stranger := range []string{"stranger", "other"} {
			f.must(f.PutTenant(ctx, store.Tenant{Name: "other"}))
			_, err := f.Result(ctx, stranger, j.ID)
			f.mustBe(err, job.ErrNotFound)
			_, err = f.Job(ctx, stranger, j.ID)
			f.mustBe(err, job.ErrNotFound)
			_, err = f.Batch(ctx, stranger, batch)
			f.mustBe(err, job.ErrNotFound)
			_, err = f.BatchDone(ctx, stranger, batch)
			f.mustBe(err, job.ErrNotFound)
			if rs, _, err := f.Results(ctx, stranger, batch, 0, 10); err != nil || len(rs) != 0 {
				t.Errorf("a stranger reads %d results, %v", len(rs), err)
			}
			if bs, err := f.Batches(ctx, stranger, "", 10); err != nil || len(bs) != 0 {
				t.Errorf("a stranger lists %d batches, %v", len(bs), err)
			}
		}
		if _, err := f.Job(ctx, "", j.ID); err != nil {
			t.Errorf("for all tenants: %v", err)
		}
	})
	t.Run("for who asks often", func(t *testing.T) {
		f := f.with(t)
		one, err := f.Batch(ctx, tenant, batch)
		f.must(err)
		open := store.NewBatch{ID: job.NewID(), Tenant: tenant}
		_, _, err = f.OpenBatch(ctx, open)
		f.must(err)
		asked := []job.ID{job.NewID(), batch, open.ID}
		many, err := f.BatchesByID(ctx, asked)
		f.must(err)
		if diff := cmp.Diff([]job.Batch{*one}, many); diff != "" {
			t.Errorf("by id (-one +many):\n%s", diff)
		}
		far, err := f.Progress(ctx, asked)
		f.must(err)
		if diff := cmp.Diff([]store.Progress{{Batch: batch, Tenant: tenant, Recorded: 1, Done: one.Done()}}, far); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		f.must(f.DropBatch(ctx, open.ID))
	})
	t.Run("batches, newest first", func(t *testing.T) {
		f := f.with(t)
		ids := []job.ID{batch}
		for range 4 {
			ids = append(ids, f.submit(newJobs(1)...))
		}
		var got []job.ID
		for before := job.ID(""); ; {
			page, err := f.Batches(ctx, tenant, before, 2)
			f.must(err)
			if len(page) == 0 {
				break
			}
			for _, b := range page {
				got = append([]job.ID{b.ID}, got...)
				before = b.ID
			}
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
	t.Run("batches, an upload that took long", func(t *testing.T) { testLongUpload(t, newFixture(t, open, Options{})) })
	t.Run("stats", func(t *testing.T) { testStats(t, newFixture(t, open, Options{})) })
	t.Run("queue", func(t *testing.T) { testQueue(t, newFixture(t, open, Options{})) })
	t.Run("health", func(t *testing.T) { testHealth(t, newFixture(t, open, Options{})) })
}

func testStats(t *testing.T, f *fixture) {
	gpu := newJobs(3)
	for i := range gpu {
		gpu[i].Pool = "gpu"
	}
	f.submit(gpu...)
	f.submit(newJobs(5)...)
	ds := f.schedule(3)
	f.claim(ds[0].Ref)
	f.submitJob(newJob("single"))
	var st store.Stats
	f.eventually("ageing of the queue", func() bool {
		var err error
		st, err = f.Stats(f.Context())
		f.must(err)
		return st.OldestQueued > 0 && st.Pools["gpu"].OldestQueued >= st.Pools[pool].OldestQueued
	})
	open := store.NewBatch{ID: job.NewID(), Tenant: tenant}
	_, _, err := f.OpenBatch(f.Context(), open)
	f.must(err)
	for who, want := range map[string][2]int64{tenant: {9, 3}, "nobody": {}} {
		if n, b, err := f.Waiting(f.Context(), who); err != nil || n != want[0] || b != want[1] {
			t.Errorf("of %s %d jobs and %d batches are not over, %v; want %d", who, n, b, err, want)
		}
	}
	f.must(f.DropBatch(f.Context(), open.ID))
	got := map[string]string{"all": fmt.Sprint(st.Queued, st.Dispatched, st.Running)}
	for name, p := range st.Pools {
		got[name] = fmt.Sprint(p.Queued, p.Dispatched, p.Running)
	}
	if diff := cmp.Diff(map[string]string{"all": "6 2 1", pool: "3 2 1", "gpu": "3 0 0"}, got); diff != "" {
		t.Errorf("queued, dispatched, running (-want +got):\n%s", diff)
	}
}

func testRegistry(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	t.Run("workers", func(t *testing.T) {
		f := f.with(t)
		start := time.Now().UTC().Truncate(time.Millisecond)
		a := store.Worker{ID: "a", Pool: pool, Version: "1", Slots: 4, StartedAt: start, Host: json.RawMessage(`{"cores":2}`)}
		b := store.Worker{ID: "b", Pool: "gpu", Version: "1", Slots: 8, StartedAt: start, Draining: true}
		f.must(f.PutWorkers(ctx, []store.Worker{b, a, a}))
		a.InUse, a.Load, a.Held, a.Tally = 3, store.WorkerLoad{Running: 20, Cores: 2, CoresUsed: 1.5, Results: 1, MemoryUsed: 1, Memory: 2, DiskUsed: 3, Disk: 1 << 50}, "short of memory", &store.Tally{Outcomes: map[job.Outcome]int64{job.Succeeded: 7}, PerSecond: 1.5}
		f.must(f.PutWorkers(ctx, []store.Worker{a}))
		got, err := f.Workers(ctx, time.Hour)
		f.must(err)
		for i := range got {
			if got[i].SeenAt.IsZero() {
				t.Error("never seen")
			}
			got[i].SeenAt, got[i].StartedAt = time.Time{}, got[i].StartedAt.UTC()
		}
		a.Settle()
		b.Settle()
		got[0].InUse, got[1].InUse = a.InUse, b.InUse // free slots follow from these
		if diff := cmp.Diff([]store.Worker{a, b}, got); diff != "" {
			t.Errorf("workers (-want +got):\n%s", diff)
		}
		f.eventually("a worker unseen", func() bool { ws, err := f.Workers(ctx, time.Millisecond); f.must(err); return len(ws) == 0 })
	})
	t.Run("quarantine", func(t *testing.T) {
		f := f.with(t)
		w := store.Worker{ID: "sick", Pool: pool, StartedAt: time.Now()}
		put := func(first time.Duration) bool {
			t.Helper()
			done, err := f.Quarantine(ctx, w.ID, "it fails", first, time.Hour)
			f.must(err)
			f.must(f.PutWorkers(ctx, []store.Worker{w})) // a heartbeat changes nothing
			return done
		}
		left := func() time.Duration {
			t.Helper()
			all, err := f.Workers(ctx, 0)
			f.must(err)
			for _, got := range all {
				if got.ID == w.ID && got.Quarantine != nil {
					if got.Quarantine.Reason != "it fails" || !got.Quarantine.Until.After(got.SeenAt) {
						t.Errorf("%+v", got.Quarantine)
					}
					return got.Quarantine.Left
				}
			}
			return 0
		}
		if put(time.Minute) {
			t.Error("a worker that nobody knows was put into quarantine")
		}
		if left() != 0 || !put(20*time.Millisecond) {
			t.Error("not put into quarantine")
		}
		f.eventually("its end", func() bool { return left() == 0 })
		if !put(time.Minute) || left() < 90*time.Second {
			t.Errorf("the second one lasts %v, want twice the first", left())
		}
		if put(time.Hour) || left() > 2*time.Minute {
			t.Error("put into quarantine again while in it")
		}
	})
	t.Run("policies", func(t *testing.T) {
		f := f.with(t)
		_, err := f.Policy(ctx, tenant, "strict", 0)
		f.mustBe(err, job.ErrNotFound)
		for _, p := range []string{`{"wall": "1s"}`, `{"wall": "2s"}`, `{"wall": "2s"}`} {
			f.must(f.PutPolicy(ctx, nil, tenant, "strict", json.RawMessage(p)))
		}
		f.must(f.PutPolicy(ctx, nil, tenant, "another", json.RawMessage(`{}`)))
		if p, err := f.Policy(ctx, tenant, "strict", 1); err != nil || string(p) != `{"wall": "1s"}` {
			t.Errorf("version 1: %s, %v", p, err)
		}
		_, err = f.Policy(ctx, tenant, "strict", 3)
		f.mustBe(err, job.ErrNotFound)
		if p, err := f.Policy(ctx, tenant, "strict", 0); err != nil || string(p) != `{"wall": "2s"}` {
			t.Errorf("policy %s, %v", p, err)
		}
		_, err = f.Policy(ctx, "stranger", "strict", 0)
		f.mustBe(err, job.ErrNotFound)
		ps, err := f.Policies(ctx, tenant)
		f.must(err)
		if len(ps) != 2 || ps[0].Name != "another" || ps[1].Version != 2 {
			t.Errorf("policies %+v", ps)
		}
		f.mustBe(f.PutPolicy(ctx, nil, tenant, "broken", json.RawMessage(`{`)), job.ErrInvalid)
	})
	t.Run("secrets", func(t *testing.T) {
		f := f.with(t)
		a, b := store.SecretRef{Tenant: tenant, Name: "a"}, store.SecretRef{Tenant: tenant, Name: "b"}
		f.mustBe(f.DeleteSecret(ctx, nil, a), job.ErrNotFound)
		f.must(f.PutSecret(ctx, nil, b, []byte("1")))
		f.must(f.PutSecret(ctx, nil, a, []byte{0, 255}))
		f.must(f.PutSecret(ctx, nil, b, []byte("2")))
		list, err := f.Secrets(ctx, tenant)
		f.must(err)
		if len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" || list[1].UpdatedAt.IsZero() {
			t.Errorf("secrets %+v", list)
		}
		if list, err := f.Secrets(ctx, "stranger"); err != nil || len(list) != 0 {
			t.Errorf("secrets of a stranger: %v, %v", list, err)
		}
		got, err := f.Sealed(ctx, []store.SecretRef{a, b, {Tenant: "stranger", Name: "a"}, {Tenant: tenant, Name: "c"}})
		f.must(err)
		if diff := cmp.Diff(map[store.SecretRef][]byte{a: {0, 255}, b: []byte("2")}, got); diff != "" {
			t.Errorf("sealed (-want +got):\n%s", diff)
		}
		f.mustBe(f.DeleteSecret(ctx, nil, store.SecretRef{Tenant: "stranger", Name: "a"}), job.ErrNotFound)
		f.must(f.DeleteSecret(ctx, nil, a))
		f.mustBe(f.DeleteSecret(ctx, nil, a), job.ErrNotFound)
		f.mustBe(f.PutSecret(ctx, nil, store.SecretRef{Tenant: tenant}, []byte("1")), job.ErrInvalid)
	})
	t.Run("tenants", func(t *testing.T) {
		f := f.with(t)
		if got, err := f.Tenant(ctx, "new"); err != nil || got.Weight != 1 || got.MaxRunning != 0 || got.Ceiling != nil {
			t.Errorf("a tenant that was never put: %+v, %v", got, err)
		}
		want := store.Tenant{Name: "new", Weight: 2.5, MaxRunning: 7, LabelCaps: job.LabelCaps{"problem": 2}, Ceiling: json.RawMessage(`{"cpu":4}`)}
		f.must(f.PutTenant(ctx, want))
		want.Version = 1
		got, err := f.Tenant(ctx, "new")
		f.must(err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tenant (-want +got):\n%s", diff)
		}
		if all, err := f.Tenants(ctx); err != nil || len(all) == 0 {
			t.Errorf("tenants %v, %v", all, err)
		}
		f.mustBe(f.PutTenant(ctx, store.Tenant{Name: "x", Weight: -1}), job.ErrInvalid)
	})
	f.must(f.Maintain(ctx))
	f.must(f.Maintain(ctx))
}

func testOrphans(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	running, recorded := f.running(newJob("running")), f.running(newJob("recorded"))
	f.finish(recorded, job.Succeeded)
	released := f.running(newJob("released"))
	f.must(f.Release(ctx, []store.Release{{Worker: worker, LeaseRef: released, Reason: job.ReasonDrained}}))
	second := f.claim(f.schedule(10)[0].Ref)[0]
	f.finish(leaseOf(second), job.Failed)
	again := newJob("again")
	again.MaxAttempts, again.RetryOn = 2, []job.Outcome{job.Failed}
	repeated := f.running(again)
	f.finish(repeated, job.Failed)
	unknown := store.LeaseRef{Job: job.NewID(), Lease: running.Lease}
	wrong := store.LeaseRef{Job: running.Job, Lease: running.Lease + 1000}

	session := store.LeaseRef{Job: job.NewID(), Lease: 7} // it has exported something
	f.must(f.PutSession(ctx, tenant, job.Session{ID: session.Job, Worker: worker}, 0))

	got, err := f.Orphans(ctx, []store.LeaseRef{running, recorded, released, leaseOf(second), repeated, unknown, wrong, session})
	f.must(err)
	want := []store.LeaseRef{released, repeated, unknown, wrong}
	byLease := cmpopts.SortSlices(func(a, b store.LeaseRef) bool {
		return a.Job < b.Job || a.Job == b.Job && a.Lease < b.Lease
	})
	if diff := cmp.Diff(want, got, byLease); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
	f.must(f.ForgetSession(ctx, session.Job))
	if got, err = f.Orphans(ctx, []store.LeaseRef{session}); err != nil || len(got) != 1 {
		t.Errorf("of a session that is forgotten: %v, %v", got, err)
	}
	if none, err := f.Orphans(ctx, nil); err != nil || len(none) != 0 {
		t.Errorf("of none: %v, %v", none, err)
	}
}
