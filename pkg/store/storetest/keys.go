package storetest

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// newKey returns a key of the tenant; its name is its token.
func newKey(of, name string) store.LiveKey {
	return store.LiveKey{Hash: sha256.Sum256([]byte(name)), Key: store.Key{ID: job.NewID(), Name: name, Tenant: of, Role: "submitter", CreatedBy: "ops"}}
}

// putKey makes a key, and checks that the action is recorded.
func (f *fixture) putKey(k store.LiveKey) store.Key {
	f.Helper()
	a := act("make key", string(k.ID))
	made, err := f.PutKey(f.Context(), a, k)
	if got := f.acted(a, err); got != store.ActionDone {
		f.Errorf("a key that was made is %s", got)
	}
	return made
}

// live returns the live keys of a tenant by name.
func (f *fixture) live(of string) map[string]store.LiveKey {
	f.Helper()
	news := f.keyNews(store.KeyMark{})
	if !news.All {
		f.Error("not all keys are read that are live")
	}
	out := map[string]store.LiveKey{}
	for _, k := range news.Keys {
		if k.Tenant == of {
			out[k.Name] = k
		}
	}
	return out
}

func (f *fixture) keyNews(since store.KeyMark) store.KeyNews {
	f.Helper()
	news, err := f.KeyNews(f.Context(), since)
	f.must(err)
	return news
}

func testKeys(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	t.Run("made and read", func(t *testing.T) {
		f := f.with(t)
		k := newKey("made", "ci")
		soon := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		k.Label, k.Policy, k.ExpiresAt = "run=7", "strict", &soon
		before := f.keyNews(store.KeyMark{}).At
		made := f.putKey(k)
		if made.ID != k.ID || made.Name != "ci" || made.Tenant != "made" || made.Role != "submitter" || made.Label != "run=7" || made.Policy != "strict" ||
			made.CreatedBy != "ops" || made.CreatedAt.IsZero() || made.ExpiresAt == nil || !made.ExpiresAt.Equal(soon) || made.RevokedAt != nil || len(made.Mark) != 8 {
			t.Errorf("made: %+v", made)
		}
		if news := f.keyNews(before); news.All || len(news.Keys) != 1 || news.Keys[0].Hash != k.Hash || news.At == before || len(f.keyNews(news.At).Keys) != 0 {
			t.Errorf("a key was made, and the news are %+v", news)
		}
		got, err := f.Key(ctx, "made", k.ID)
		if f.must(err); got.ID != made.ID || !got.CreatedAt.Equal(made.CreatedAt) {
			t.Errorf("read: %+v, want %+v", got, made)
		}
		_, err = f.Key(ctx, "", k.ID)
		f.must(err)
		if known := f.live("made"); len(known) != 1 || known["ci"].Hash != k.Hash || known["ci"].Label != "run=7" {
			t.Errorf("live: %+v", known)
		}
	})
	t.Run("of its tenant only", func(t *testing.T) {
		f := f.with(t)
		k := f.putKey(newKey("one", "of one"))
		_, err := f.Key(ctx, "another", k.ID)
		f.mustBe(err, job.ErrNotFound)
		for _, of := range []string{"another", "", "no such tenant"} {
			if ks, err := f.Keys(ctx, of, "", 10); err != nil || len(ks) != 0 {
				t.Errorf("tenant %q has %+v, %v", of, ks, err)
			}
		}
		_, err = f.Key(ctx, "", job.NewID())
		f.mustBe(err, job.ErrNotFound)
		_, err = f.RevokeKey(ctx, act("revoke key", "none"), job.NewID())
		f.mustBe(err, job.ErrNotFound)
	})
	t.Run("pages", func(t *testing.T) {
		f := f.with(t)
		var want []job.ID
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			want = append([]job.ID{f.putKey(newKey("pages", "page "+name)).ID}, want...)
		}
		var got []job.ID
		for before := job.ID(""); ; {
			ks, err := f.Keys(ctx, "pages", before, 2)
			f.must(err)
			for _, k := range ks {
				got = append(got, k.ID)
			}
			if len(ks) < 2 {
				break
			}
			before = ks[1].ID
		}
		if len(got) != len(want) || got[0] != want[0] || got[4] != want[4] {
			t.Errorf("pages have %v, want %v", got, want)
		}
	})
	t.Run("revoked and expired", func(t *testing.T) { testKeyEnds(f.with(t)) })
	t.Run("bounded", func(t *testing.T) {
		f := f.with(t)
		past := time.Now().Add(-time.Hour)
		old := newKey("full", "long over")
		old.ExpiresAt = &past
		f.putKey(old)
		for i := range store.MaxLiveKeys {
			k := newKey("full", string(job.NewID()))
			_, err := f.PutKey(ctx, act("make key", string(k.ID)), k)
			if err != nil {
				t.Fatalf("key %d: %v", i, err)
			}
		}
		_, err := f.PutKey(ctx, act("make key", "one more"), newKey("full", "one more"))
		f.mustBe(err, job.ErrTooMany)
		twice := newKey("pages", "page a")
		_, err = f.PutKey(ctx, act("make key", "twice"), twice)
		f.mustBe(err, job.ErrConflict)
		nameless := newKey("pages", "")
		_, err = f.PutKey(ctx, act("make key", "nameless"), nameless)
		f.mustBe(err, job.ErrInvalid)
	})
}

func testKeyEnds(f *fixture) {
	ctx, past := f.Context(), time.Now().Add(-time.Second)
	gone, stays, over := newKey("ends", "gone"), newKey("ends", "stays"), newKey("ends", "over")
	over.ExpiresAt = &past
	for _, k := range []store.LiveKey{gone, stays, over} {
		f.putKey(k)
	}
	before := f.keyNews(store.KeyMark{}).At
	var first time.Time
	for i, want := range []store.ActionOutcome{store.ActionDone, store.ActionUnchanged} {
		a := act("revoke key", string(gone.ID))
		if i == 1 {
			a.Actor = "another"
		}
		k, err := f.RevokeKey(ctx, a, gone.ID)
		if got := f.acted(a, err); got != want || k.RevokedAt == nil || k.RevokedBy != "ops" || i == 1 && !k.RevokedAt.Equal(first) {
			f.Fatalf("revoked for time %d: %s %+v", i, got, k)
		}
		first = *k.RevokedAt
	}
	if news := f.keyNews(before); news.All || len(news.Keys) != 1 || news.Keys[0].ID != gone.ID || news.Keys[0].RevokedAt == nil {
		f.Errorf("a key was revoked, and the news are %+v", news)
	}
	if news := f.keyNews(store.KeyMark{Changes: before.Changes, History: "of another database"}); !news.All {
		f.Errorf("of another history, the news are not all: %+v", news)
	}
	if known := f.live("ends"); len(known) != 1 || known["stays"].ID != stays.ID {
		f.Errorf("live: %+v", known)
	}
	used := time.Now().Truncate(time.Millisecond)
	f.must(f.KeysUsed(ctx, map[job.ID]time.Time{stays.ID: used, gone.ID: used, job.NewID(): used}))
	f.must(f.KeysUsed(ctx, map[job.ID]time.Time{stays.ID: used.Add(-time.Hour)}))
	f.must(f.KeysUsed(ctx, nil))
	if k, err := f.Key(ctx, "ends", stays.ID); err != nil || k.LastUsedAt == nil || !k.LastUsedAt.Equal(used) {
		f.Errorf("used at %v: %+v, %v", used, k, err)
	}
}
