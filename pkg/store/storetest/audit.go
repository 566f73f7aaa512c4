package storetest

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testActionsInOrder checks that a reader who has seen an action's number misses no action that is committed
// later.
func testActionsInOrder(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	const writers, each = 8, 25
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range each {
				a := act("put", "x")
				a.Outcome = store.ActionDone
				f.must(f.NoteAction(t.Context(), a))
			}
		})
	}
	seen, last := 0, int64(0)
	for end := time.Now().Add(time.Minute); seen < writers*each && time.Now().Before(end); {
		got, err := f.ActionsAfter(t.Context(), last, store.ActionQuery{Limit: 7})
		f.must(err)
		for _, a := range got {
			if a.Seq <= last {
				t.Fatalf("number %d after %d", a.Seq, last)
			}
			last, seen = a.Seq, seen+1
		}
	}
	writing.Wait()
	if seen != writers*each {
		t.Errorf("%d actions were seen, of %d", seen, writers*each)
	}
	if n, err := f.ForgetActions(t.Context(), time.Hour); err != nil || n != 0 {
		t.Errorf("%d young ones are forgotten, %v", n, err)
	}
	if n, err := f.ForgetActions(t.Context(), 0); err != nil || n != writers*each {
		t.Errorf("%d are forgotten, %v", n, err)
	}
}

// testAudited checks that a tenant's change is recorded in the same transaction, with its old and new values
// and without secrets.
func testAudited(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	last := func(subject string) store.Action {
		t.Helper()
		got, err := f.Actions(ctx, store.ActionQuery{Subject: subject, Limit: 1})
		if f.must(err); len(got) != 1 {
			t.Fatalf("nothing is written down of %s", subject)
		}
		return got[0]
	}
	for i, c := range []struct{ policy, before, after string }{
		{`{"cpu":1}`, ``, `{"version":1,"policy":{"cpu":1}}`}, {`{"cpu":2}`, `{"version":1,"policy":{"cpu":1}}`, `{"version":2,"policy":{"cpu":2}}`}, {`{"cpu":2}`, ``, ``},
	} {
		f.must(f.PutPolicy(ctx, act("put policy", "p"), "a", "p", json.RawMessage(c.policy)))
		if a := last("p"); string(a.Before) != c.before || string(a.After) != c.after || (a.Outcome == store.ActionUnchanged) != (c.after == "") {
			t.Errorf("policy %d: %s from %s to %s", i, a.Outcome, a.Before, a.After)
		}
	}
	ref := store.SecretRef{Tenant: "a", Name: "s"}
	f.must(f.PutSecret(ctx, act("put secret", "s"), ref, []byte("sealed")))
	if a := last("s"); a.Before != nil || !strings.Contains(string(a.After), "updated_at") || strings.Contains(string(a.After), "sealed") {
		t.Errorf("a new secret: from %s to %s", a.Before, a.After)
	}
	f.must(f.PutSecret(ctx, act("put secret", "s"), ref, []byte("sealed too")))
	f.must(f.DeleteSecret(ctx, act("delete secret", "s"), ref))
	if a := last("s"); a.Action != "delete secret" || a.Before == nil || a.After != nil {
		t.Errorf("a secret that is gone: %+v", a)
	}
	gone := act("delete secret", "s")
	f.mustBe(f.DeleteSecret(ctx, gone, ref), job.ErrNotFound)
	if a := last("s"); a.ID == gone.ID {
		t.Error("what failed is written down")
	}
}

// testGrants checks the versions of a tenant's grant. A change that names an old version is refused. An entry
// of a file counts once.
func testGrants(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	version := func(n int64) store.GrantIf { return store.GrantIf{Version: &n} }
	grant := func(weight float64, only store.GrantIf) (store.Tenant, *store.Action, error) {
		a := act("grant", "g")
		now, err := f.Grant(ctx, a, store.Tenant{Name: "g", Weight: weight, MaxRunning: 3, Ceiling: json.RawMessage(`{"cpu":4}`)}, only)
		return now, a, err
	}
	if now, err := f.Tenant(ctx, "g"); err != nil || now.Version != 0 {
		t.Fatalf("before: %+v, %v", now, err)
	}
	now, a, err := grant(2, version(0))
	if err != nil || now.Version != 1 || now.Weight != 2 || a.Outcome != store.ActionDone || !strings.Contains(string(a.After), `"weight":2`) || !strings.Contains(string(a.Before), `"weight":1`) {
		t.Errorf("%+v, %+v, %v", now, a, err)
	}
	_, _, err = grant(3, version(0))
	f.mustBe(err, job.ErrStale)
	if now, a, err = grant(2, version(1)); err != nil || now.Version != 1 || a.Outcome != store.ActionUnchanged {
		t.Errorf("the same again: %+v, %s, %v", now, a.Outcome, err)
	}
	applied := func(entry string, want bool) {
		if is, err := f.IsApplied(ctx, "g", entry); err != nil || is != want {
			t.Errorf("entry %s: applied %v, %v; want %v", entry, is, err, want)
		}
	}
	applied("one", false)
	if now, _, err = grant(5, store.GrantIf{Entry: "one"}); err != nil || now.Version != 2 || now.Weight != 5 {
		t.Errorf("by an entry: %+v, %v", now, err)
	}
	applied("one", true)
	if now, _, err = grant(7, version(2)); err != nil || now.Version != 3 {
		t.Errorf("over the entry: %+v, %v", now, err)
	}
	_, _, err = grant(5, store.GrantIf{Entry: "one"})
	f.mustBe(err, job.ErrConflict)
	if got, err := f.Tenant(ctx, "g"); err != nil || got.Weight != 7 || got.Version != 3 || got.MaxRunning != 3 || string(got.Ceiling) != `{"cpu":4}` {
		t.Errorf("the entry again: %+v, %v", got, err)
	}
	if now, _, err = grant(6, store.GrantIf{Entry: "two"}); err != nil || now.Version != 4 || now.Weight != 6 {
		t.Errorf("by another entry: %+v, %v", now, err)
	}
	applied("one", false)
	applied("two", true)
	weight := 9.0
	f.must(f.Override(ctx, act("override", "g"), "g", store.Override{Weight: &weight}, 0))
	if now, _, err = grant(8, version(4)); err != nil || now.Version != 5 || now.Weight != 9 || *now.Override.Granted.Weight != 8 {
		t.Errorf("behind an override: %+v, %v", now, err)
	}
}
