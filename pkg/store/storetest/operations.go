package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// act returns an operator's action, as the caller makes it.
func act(action, subject string) *store.Action {
	return &store.Action{ID: job.NewID(), Actor: "ops", Token: "01234567", Action: action, Subject: subject, Reason: "because"}
}

// acted returns the outcome, and checks that the action is recorded correctly.
func (f *fixture) acted(a *store.Action, err error) store.ActionOutcome {
	f.Helper()
	f.must(err)
	got, err := f.Actions(f.Context(), store.ActionQuery{Subject: a.Subject, Limit: 1})
	f.must(err)
	if len(got) != 1 || got[0].ID != a.ID || got[0].Actor != a.Actor || got[0].Token != a.Token || got[0].Action != a.Action ||
		got[0].Reason != a.Reason || got[0].Outcome != a.Outcome || got[0].At.IsZero() || !got[0].At.Equal(a.At) {
		f.Errorf("written down: %+v, want %+v", got, a)
	}
	return a.Outcome
}

// worker returns a worker as it is listed.
func (f *fixture) worker(id string) store.Worker {
	f.Helper()
	all, err := f.Workers(f.Context(), 0)
	f.must(err)
	for _, w := range all {
		if w.ID == id {
			return w
		}
	}
	f.Fatalf("worker %s is not listed", id)
	return store.Worker{}
}

// actionsBy queries actions by each of their fields, and in the order of their commits. ids are all existing
// actions.
func (f *fixture) actionsBy(ids []job.ID) {
	f.Helper()
	ctx := f.Context()
	seq, err := f.ActionsSeq(ctx)
	f.must(err)
	a := &store.Action{ID: job.NewID(), Actor: "u@example.com", Token: "0", Remote: "192.0.2.1", Action: "put policy", Subject: "strict", Tenant: "of-actions",
		Before: json.RawMessage(`{"version":1,"policy":{"env":{"x":"\u0000"}}}`), After: json.RawMessage(`{"version":2}`), Outcome: store.ActionDone}
	f.must(f.NoteAction(ctx, a))
	for name, q := range map[string]store.ActionQuery{
		"actor": {Actor: a.Actor}, "action": {Action: a.Action}, "tenant": {Tenant: a.Tenant}, "since": {Since: a.At}, "all": {Actor: a.Actor, Action: a.Action, Subject: a.Subject, Tenant: a.Tenant, Since: a.At},
	} {
		q.Limit = 10
		got, err := f.Actions(ctx, q)
		if f.must(err); len(got) != 1 || got[0].ID != a.ID || got[0].Remote != a.Remote || got[0].Tenant != a.Tenant || string(got[0].Before) != string(a.Before) || string(got[0].After) != string(a.After) || got[0].Seq != a.Seq {
			f.Errorf("by %s: %+v", name, got)
		}
		if after, err := f.ActionsAfter(ctx, seq, q); err != nil || len(after) != 1 || after[0].ID != a.ID {
			f.Errorf("by %s, after %d: %+v, %v", name, seq, after, err)
		}
	}
	for name, q := range map[string]store.ActionQuery{"actor": {Actor: "u"}, "tenant": {Tenant: "of-action"}, "since": {Since: a.At.Add(time.Microsecond)}, "both": {Actor: a.Actor, Action: "sweep"}} {
		if got, err := f.Actions(ctx, q); err != nil || len(got) != 0 {
			f.Errorf("by another %s: %+v, %v", name, got, err)
		}
	}
	if got, err := f.Actions(ctx, store.ActionQuery{Until: a.At, Limit: 10}); err != nil || len(got) != len(ids) {
		f.Errorf("until then: %+v, %v", got, err)
	}
	all, err := f.ActionsAfter(ctx, 0, store.ActionQuery{Limit: 10})
	if f.must(err); len(all) != len(ids)+1 || all[0].ID != ids[0] || all[len(ids)].ID != a.ID {
		f.Errorf("in the order of their commits: %+v", all)
	}
}

func testOperations(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	t.Run("actions", func(t *testing.T) {
		f := f.with(t)
		var ids []job.ID
		for i := range 5 {
			a := act("sweep", fmt.Sprint("bucket-", i%2))
			a.Detail, a.Outcome = json.RawMessage(`{"objects": 3}`), store.ActionFailed
			f.must(f.NoteAction(ctx, a))
			ids = append(ids, a.ID)
		}
		first, err := f.Actions(ctx, store.ActionQuery{Limit: 2})
		f.must(err)
		rest, err := f.Actions(ctx, store.ActionQuery{Limit: 10, Before: first[1].ID})
		f.must(err)
		var got []job.ID
		for _, a := range append(first, rest...) {
			got = append([]job.ID{a.ID}, got...)
		}
		if fmt.Sprint(got) != fmt.Sprint(ids) || string(first[0].Detail) != `{"objects": 3}` || first[0].Outcome != store.ActionFailed {
			t.Errorf("pages have %v, want %v; %+v", got, ids, first[0])
		}
		of, err := f.Actions(ctx, store.ActionQuery{Subject: "bucket-1", Limit: 10})
		if f.must(err); len(of) != 2 || of[0].ID != ids[3] || of[1].ID != ids[1] {
			t.Errorf("of one subject: %+v", of)
		}
		f.actionsBy(ids)
		bad := act("sweep", "bucket-2")
		if bad.Outcome = "who knows"; f.NoteAction(ctx, bad) == nil {
			t.Error("an outcome that there is not was written down")
		}
	})
	t.Run("cordon", func(t *testing.T) {
		f := f.with(t)
		w := store.Worker{ID: "cordoned", Pool: pool, StartedAt: time.Now()}
		f.mustBe(f.Cordon(ctx, act("cordon", w.ID), w.ID), job.ErrNotFound)
		if none, err := f.Actions(ctx, store.ActionQuery{Subject: w.ID, Limit: 1}); err != nil || len(none) != 0 {
			t.Errorf("what failed is written down: %v, %v", none, err)
		}
		f.must(f.PutWorkers(ctx, []store.Worker{w}))
		for i, want := range []store.ActionOutcome{store.ActionDone, store.ActionUnchanged} {
			a := act("cordon", w.ID)
			if i == 1 {
				a.Actor = "another"
			}
			if got := f.acted(a, f.Cordon(ctx, a, w.ID)); got != want {
				t.Errorf("cordon %d is %s, want %s", i, got, want)
			}
			w.StartedAt = w.StartedAt.Add(time.Second) // the next process of the name
			f.must(f.PutWorkers(ctx, []store.Worker{w}))
			if c := f.worker(w.ID).Cordon; c == nil || c.By != "ops" || c.Reason != "because" || c.At.IsZero() {
				t.Errorf("after cordon %d: %+v", i, c)
			}
		}
		for _, want := range []store.ActionOutcome{store.ActionDone, store.ActionUnchanged} {
			a := act("uncordon", w.ID)
			if got := f.acted(a, f.Uncordon(ctx, a, w.ID)); got != want || f.worker(w.ID).Cordon != nil {
				t.Errorf("uncordon is %s, want %s: %+v", got, want, f.worker(w.ID).Cordon)
			}
		}
	})
	t.Run("a cordon outlasts silence", func(t *testing.T) {
		f := f.with(t)
		week := 7 * 24 * time.Hour
		f.must(f.PutWorkers(ctx, []store.Worker{{ID: "away", Pool: pool, StartedAt: time.Now(), Silence: week}, {ID: "gone", Pool: pool, StartedAt: time.Now(), Silence: week}}))
		f.must(f.Cordon(ctx, act("cordon", "away"), "away"))
		f.reap()
		if f.worker("away").Cordon == nil {
			t.Error("a cordon is forgotten")
		}
		f.mustBe(f.Cordon(ctx, act("cordon", "gone"), "gone"), job.ErrNotFound)
		f.must(f.Uncordon(ctx, act("uncordon", "away"), "away"))
		f.reap()
		f.mustBe(f.Cordon(ctx, act("cordon", "away"), "away"), job.ErrNotFound)
	})
	t.Run("quarantine by hand", func(t *testing.T) {
		f := f.with(t)
		w := store.Worker{ID: "confined", Pool: pool, StartedAt: time.Now()}
		f.mustBe(f.Confine(ctx, act("quarantine", w.ID), w.ID, time.Hour), job.ErrNotFound)
		f.must(f.PutWorkers(ctx, []store.Worker{w}))
		for _, d := range []time.Duration{time.Hour, time.Minute} {
			a := act("quarantine", w.ID)
			f.acted(a, f.Confine(ctx, a, w.ID, d))
			if q := f.worker(w.ID).Quarantine; q == nil || q.Left <= d/2 || q.Left > d || q.Reason != "because" {
				t.Errorf("in quarantine: %+v, want %v", q, d)
			}
		}
		for _, want := range []store.ActionOutcome{store.ActionDone, store.ActionUnchanged} {
			a := act("unquarantine", w.ID)
			if got := f.acted(a, f.Absolve(ctx, a, w.ID)); got != want || f.worker(w.ID).Quarantine != nil {
				t.Errorf("absolved: %s, want %s; %+v", got, want, f.worker(w.ID).Quarantine)
			}
		}
		put, err := f.Quarantine(ctx, w.ID, "it fails", time.Minute, time.Hour)
		if f.must(err); !put || f.worker(w.ID).Quarantine.Left > time.Minute {
			t.Errorf("the next one is not a first one: %v, %+v", put, f.worker(w.ID).Quarantine)
		}
	})
	t.Run("load", func(t *testing.T) {
		f := f.with(t)
		l := f.running(newJob("running"))
		if got, err := f.Load(ctx, worker); err != nil || got.Running != 1 || got.Sessions != 0 {
			t.Errorf("load %+v, %v", got, err)
		}
		f.finish(l, job.Succeeded)
		if got, err := f.Load(ctx, worker); err != nil || got.Running != 0 {
			t.Errorf("load after its end %+v, %v", got, err)
		}
	})
	t.Run("leader and schema", func(t *testing.T) {
		f := f.with(t)
		_, err := f.Leader(ctx, "r")
		f.mustBe(err, job.ErrNotFound)
		_, err = f.Lead(ctx, "r", "a", time.Hour)
		f.must(err)
		first, err := f.Leader(ctx, "r")
		if f.must(err); first.Holder != "a" || first.Term != 1 || first.Since.IsZero() || !first.Until.After(first.Since) {
			t.Errorf("leader %+v", first)
		}
		_, err = f.Lead(ctx, "r", "a", time.Hour)
		f.must(err)
		if again, err := f.Leader(ctx, "r"); err != nil || !again.Since.Equal(first.Since) {
			t.Errorf("it leads since %v, and then since %v, %v", first.Since, again.Since, err)
		}
		f.must(f.Resign(ctx, "r", "a"))
		_, err = f.Leader(ctx, "r")
		f.mustBe(err, job.ErrNotFound)
		_, err = f.Lead(ctx, "r", "b", time.Hour)
		f.must(err)
		if next, err := f.Leader(ctx, "r"); err != nil || next.Holder != "b" || next.Term != 2 || !next.Since.After(first.Since) {
			t.Errorf("the next leader is %+v, %v", next, err)
		}
		if v, err := f.Schema(ctx); err != nil || v.Has != v.Wants || v.Wants == 0 {
			t.Errorf("schema %+v, %v", v, err)
		}
	})
}
