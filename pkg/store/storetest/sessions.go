package storetest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func testSessions(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	session := func() job.Session {
		s := job.Session{
			ID: job.NewID(), Worker: worker, State: job.SessionLive,
			Spec:        job.SessionSpec{Name: "s", Kind: job.SessionPython, Image: "python", Lease: job.Duration(time.Minute)},
			Enforcement: []job.Enforcement{{Capability: "memory", Requested: "1Gi", Applied: "1Gi", Mechanism: "m", Level: job.LevelKernel}},
		}
		f.must(f.PutSession(ctx, tenant, s, 0))
		return s
	}
	first := session()
	f.must(f.PutSession(ctx, tenant, first, 0)) // a repeated call has no further effect
	got, err := f.Session(ctx, tenant, first.ID)
	f.must(err)
	if got.Spec.Name != "s" || got.Spec.Lease != first.Spec.Lease || got.Worker != worker || got.State != job.SessionLive || got.CreatedAt.IsZero() {
		t.Errorf("session: %+v", got)
	}
	if !slices.Equal(got.Enforcement, first.Enforcement) {
		t.Errorf("enforcement: %+v", got.Enforcement)
	}

	t.Run("fork", func(t *testing.T) {
		id := job.NewID()
		for range 2 {
			copied, err := f.ForkSession(ctx, tenant, first.ID, id, 0)
			f.must(err)
			if copied.Parent != first.ID || copied.ID != id || copied.Worker != worker || copied.Spec.Name != "s" || !slices.Equal(copied.Enforcement, first.Enforcement) {
				t.Errorf("copy: %+v", copied)
			}
		}
		_, err := f.ForkSession(ctx, tenant, job.NewID(), job.NewID(), 0)
		f.mustBe(err, job.ErrNotFound)
	})

	t.Run("one that never was", func(t *testing.T) {
		s := session()
		f.must(f.ForgetSession(ctx, s.ID))
		_, err := f.Session(ctx, tenant, s.ID)
		f.mustBe(err, job.ErrNotFound)
	})

	t.Run("tenants", func(t *testing.T) {
		f.must(f.PutSession(ctx, "other", job.Session{ID: job.NewID(), Worker: worker}, 0))
		_, err := f.Session(ctx, "other", first.ID)
		f.mustBe(err, job.ErrNotFound)
		_, err = f.ForkSession(ctx, "other", first.ID, job.NewID(), 0)
		f.mustBe(err, job.ErrNotFound)
		list, err := f.ListSessions(ctx, tenant, true, 10)
		f.must(err)
		if len(list) != 2 || list[1].ID != first.ID {
			t.Errorf("live: %+v", list)
		}
		for _, live := range []bool{true, false} {
			list, err = f.ListSessions(ctx, "", live, 10)
			f.must(err)
			of := map[string]int{}
			for _, s := range list {
				of[s.Tenant]++
			}
			if of["other"] != 1 || of[tenant] < 2 || len(of) != 2 {
				t.Errorf("of all tenants, live %v: %+v", live, of)
			}
			list, err = f.ListSessions(ctx, "", live, 1)
			f.must(err)
			if len(list) != 1 || list[0].Tenant != "other" {
				t.Errorf("the newest of all tenants, live %v: %+v", live, list)
			}
		}
	})

	t.Run("held in vain", func(t *testing.T) {
		ended, held := session(), session()
		if done, err := f.EndSession(ctx, ended.ID, worker, job.Lost, "gone"); err != nil || !done {
			t.Fatalf("not ended: %v", err)
		}
		never, soon := job.FirstIDAt(time.Now().Add(-time.Hour)), job.NewID() // the record of the second may be on its way
		lost, err := f.LostSessions(ctx, []store.HeldSession{{Session: ended.ID, Worker: worker}, {Session: held.ID, Worker: worker},
			{Session: first.ID, Worker: "another"}, {Session: never, Worker: worker}, {Session: soon, Worker: worker}})
		f.must(err)
		got := map[job.ID]string{}
		for _, l := range lost {
			got[l.Session] = l.Worker
		}
		if want := map[job.ID]string{ended.ID: worker, first.ID: "another", never: worker}; !maps.Equal(got, want) {
			t.Errorf("held in vain are %v, want %v", got, want)
		}
		f.must(func() error { _, err := f.EndSession(ctx, held.ID, worker, job.Lost, ""); return err }())
	})

	t.Run("no more than may be live", func(t *testing.T) {
		const who, most = "crowded", 3
		put := func(id job.ID) error {
			return f.PutSession(ctx, who, job.Session{ID: id, Worker: worker}, most)
		}
		first := job.NewID()
		f.must(put(first))
		// Ten concurrent requests find room for two.
		errs := make(chan error)
		for i := range 10 {
			go func() {
				if i%2 == 0 {
					errs <- put(job.NewID())
					return
				}
				_, err := f.ForkSession(ctx, who, first, job.NewID(), most)
				errs <- err
			}()
		}
		made := 0
		for range 10 {
			if err := <-errs; err == nil {
				made++
			} else {
				f.mustBe(err, job.ErrTooMany)
			}
		}
		if made != most-1 {
			t.Errorf("%d more were written down, want %d", made, most-1)
		}
		f.must(put(first)) // a repeated call counts once, and is not refused
		_, err := f.EndSession(ctx, first, worker, job.Succeeded, "")
		f.must(err)
		f.must(put(job.NewID()))
		f.must(f.PutSession(ctx, "another", job.Session{ID: job.NewID(), Worker: worker}, 1))
	})

	t.Run("executions", func(t *testing.T) {
		var ids []job.ID
		for range 3 {
			e := store.Executed{Session: first.ID, ID: job.NewID(), Code: "a\x00b", Result: json.RawMessage(`{"outcome":"succeeded"}`)}
			f.must(f.PutExecute(ctx, e))
			f.must(f.PutExecute(ctx, e))
			ids = append(ids, e.ID)
		}
		all, err := f.Executions(ctx, tenant, first.ID, "", 10)
		f.must(err)
		rest, err := f.Executions(ctx, tenant, first.ID, ids[0], 1)
		f.must(err)
		if len(all) != 3 || all[0].ID != ids[0] || len(rest) != 1 || rest[0].ID != ids[1] {
			t.Errorf("executions: %d of 3, then %+v", len(all), rest)
		}
		// An execution that began before and took longer is listed after the ones already read.
		late := store.Executed{Session: first.ID, ID: job.FirstIDAt(ids[0].Time().Add(-time.Minute)), Code: "1", Result: json.RawMessage(`{}`)}
		f.must(f.PutExecute(ctx, late))
		rest, err = f.Executions(ctx, tenant, first.ID, ids[2], 10)
		f.must(err)
		if len(rest) != 1 || rest[0].ID != late.ID {
			t.Errorf("after the last one %d were seen, want the one that was recorded since", len(rest))
		}
		if none, err := f.Executions(ctx, "other", first.ID, "", 10); err != nil || len(none) != 0 {
			t.Errorf("of another tenant: %v, %v", none, err)
		}
		if s, err := f.Session(ctx, tenant, first.ID); err != nil || s.Executions != 4 {
			t.Errorf("count: %+v, %v", s, err)
		}
	})

	t.Run("another worker ends nothing", func(t *testing.T) {
		for _, name := range []string{"", first.Worker + "x"} {
			if ended, err := f.EndSession(ctx, first.ID, name, job.Failed, "forged"); err != nil || ended {
				t.Errorf("by %q: %v, %v", name, ended, err)
			}
		}
	})
	t.Run("the first end counts", func(t *testing.T) {
		for _, o := range []job.Outcome{job.Expired, job.Lost} {
			ended, err := f.EndSession(ctx, first.ID, first.Worker, o, "why "+string(o))
			f.must(err)
			if ended != (o == job.Expired) {
				t.Errorf("%s: %v", o, ended)
			}
		}
		s, err := f.Session(ctx, tenant, first.ID)
		f.must(err)
		if s.State != job.SessionEnded || s.Outcome != job.Expired || s.Message != "why expired" || s.EndedAt == nil {
			t.Errorf("ended: %+v", s)
		}
	})

	t.Run("reap", func(t *testing.T) {
		s := session()
		if n, err := f.ReapSessions(ctx, time.Hour); err != nil || n != 0 {
			t.Errorf("a young one: %d, %v", n, err)
		}
		if n, err := f.ReapSessions(ctx, 0); err != nil || n == 0 {
			t.Errorf("of a worker that nobody knows: %d, %v", n, err)
		}
		if got, err := f.Session(ctx, tenant, s.ID); err != nil || got.Outcome != job.Lost {
			t.Errorf("reaped: %+v, %v", got, err)
		}
	})
}
