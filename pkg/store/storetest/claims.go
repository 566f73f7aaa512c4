package storetest

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func testKeyClaims(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	key := func(name string) store.Idempotency { return store.Idempotency{Key: name, Hash: "h"} }
	claim := func(k store.Idempotency, made job.ID, lease time.Duration) store.KeyClaim {
		t.Helper()
		c, err := f.ClaimKey(ctx, tenant, k, made, lease)
		f.must(err)
		return c
	}
	holds := func(want bool) func(bool, error) {
		return func(got bool, err error) {
			t.Helper()
			if f.must(err); got != want {
				t.Errorf("it is %v that the claim is there, want %v", got, want)
			}
		}
	}

	t.Run("one of many at once has it", func(t *testing.T) {
		const n = 10
		got := make(chan bool, n)
		for range n {
			go func() {
				id := job.NewID()
				c, err := f.ClaimKey(ctx, tenant, key("race"), id, time.Minute)
				got <- err == nil && c.Made == id
			}()
		}
		mine := 0
		for range n {
			if <-got {
				mine++
			}
		}
		if mine != 1 {
			t.Errorf("%d have the key", mine)
		}
	})

	t.Run("a claim is held, settled and stays", func(t *testing.T) {
		first, second := job.NewID(), job.NewID()
		for range 2 { // a repeated call has no further effect
			if c := claim(key("a"), first, time.Minute); c != (store.KeyClaim{Made: first, Held: true}) {
				t.Errorf("claimed: %+v", c)
			}
		}
		if c := claim(key("a"), job.NewID(), time.Minute); c != (store.KeyClaim{Made: first, Held: true}) {
			t.Errorf("of another: %+v", c)
		}
		_, err := f.ClaimKey(ctx, tenant, store.Idempotency{Key: "a", Hash: "other"}, job.NewID(), time.Minute)
		f.mustBe(err, job.ErrKeyUsed)
		holds(true)(f.HoldKey(ctx, tenant, "a", first, 0))
		if c := claim(key("a"), second, time.Minute); c != (store.KeyClaim{Made: first}) {
			t.Errorf("after its lease: %+v", c)
		}
		holds(false)(f.HoldKey(ctx, tenant, "a", second, time.Minute))
		holds(false)(f.SettleKey(ctx, tenant, "a", second, second))
		for range 2 {
			holds(true)(f.SettleKey(ctx, tenant, "a", first, second))
		}
		holds(false)(f.HoldKey(ctx, tenant, "a", second, time.Minute))
		f.must(f.FreeKey(ctx, tenant, "a", second)) // existing leases stay
		if c := claim(key("a"), first, time.Minute); c != (store.KeyClaim{Made: second, Settled: true}) {
			t.Errorf("settled: %+v", c)
		}
	})

	t.Run("one that is given up is free", func(t *testing.T) {
		first, second := job.NewID(), job.NewID()
		claim(key("b"), first, time.Minute)
		f.must(f.FreeKey(ctx, tenant, "b", second))
		if c := claim(key("b"), second, time.Minute); c.Made != first {
			t.Errorf("given up by somebody else: %+v", c)
		}
		f.must(f.FreeKey(ctx, tenant, "b", first))
		if c := claim(store.Idempotency{Key: "b", Hash: "other"}, second, time.Minute); c.Made != second {
			t.Errorf("given up: %+v", c)
		}
		holds(false)(f.SettleKey(ctx, tenant, "b", first, first))
	})

	t.Run("keys of jobs and of other tenants", func(t *testing.T) {
		j := newJob("keyed")
		_, _, err := f.SubmitJob(ctx, j, store.Idempotency{Key: "c", Hash: "of a job"}, 0)
		f.must(err)
		_, err = f.ClaimKey(ctx, tenant, key("c"), job.NewID(), time.Minute)
		f.mustBe(err, job.ErrKeyUsed)
		claim(key("d"), job.NewID(), time.Minute)
		_, _, err = f.SubmitJob(ctx, newJob("late"), store.Idempotency{Key: "d", Hash: "of a job"}, 0)
		f.mustBe(err, job.ErrKeyUsed)
		mine := job.NewID()
		if c, err := f.ClaimKey(ctx, "other", key("d"), mine, time.Minute); err != nil || c.Made != mine {
			t.Errorf("of another tenant: %+v, %v", c, err)
		}
	})

	t.Run("one execution", func(t *testing.T) {
		s := job.Session{ID: job.NewID(), Worker: worker}
		f.must(f.PutSession(ctx, tenant, s, 0))
		e := store.Executed{Session: s.ID, ID: job.NewID(), Code: "1", Result: []byte(`{"outcome":"succeeded"}`)}
		_, err := f.Execution(ctx, tenant, s.ID, e.ID)
		f.mustBe(err, job.ErrNotFound)
		f.must(f.PutExecute(ctx, e))
		if got, err := f.Execution(ctx, tenant, s.ID, e.ID); err != nil || string(got.Result) != string(e.Result) || got.Code != "1" || got.CreatedAt.IsZero() {
			t.Errorf("execution: %+v, %v", got, err)
		}
		_, err = f.Execution(ctx, "other", s.ID, e.ID)
		f.mustBe(err, job.ErrNotFound)
		_, err = f.Execution(ctx, tenant, job.NewID(), e.ID)
		f.mustBe(err, job.ErrNotFound)
	})
}
