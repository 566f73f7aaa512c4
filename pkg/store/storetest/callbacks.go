package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

var callback = job.Callback{URL: "https://example.org/done?a=b", SecretRef: "hook"}

// told submits a batch with a callback and one job.
func (f *fixture) told(of string) job.ID {
	f.Helper()
	b, j := newBatch(), newJob("told")
	b.Callback, b.Tenant, j.Tenant = &callback, of, of
	id, err := f.SubmitBatch(f.Context(), b, []store.NewJob{j})
	f.must(err)
	return id
}

func (f *fixture) take(n int) []store.CallbackTry {
	f.Helper()
	got, _, err := f.TakeCallbacks(f.Context(), store.CallbackQuery{N: n, Lease: time.Minute})
	f.must(err)
	return got
}

func (f *fixture) settle(t store.CallbackTry, e store.CallbackEnd) {
	f.Helper()
	f.must(f.SettleCallback(f.Context(), t, e))
}

// finishAll runs all queued jobs.
func (f *fixture) finishAll(o job.Outcome) {
	f.Helper()
	for _, c := range f.run() {
		f.finish(leaseOf(c), o)
	}
}

func testCallbacks(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	id := f.told(tenant)
	f.submit(newJob("nobody asks"))
	if d := f.batch(id).Callback; d == nil || (job.Callback{URL: d.URL, SecretRef: d.SecretRef}) != callback || d.ID == "" || d.Tries != 0 {
		t.Errorf("callback %+v", d)
	}
	if got := f.take(10); len(got) != 0 {
		t.Fatalf("before the end: %+v", got)
	}
	f.finishAll(job.Failed)
	got := f.take(10)
	if len(got) != 1 || got[0].Batch != id || got[0].Callback != callback || got[0].Try != 1 || got[0].Tenant != tenant || got[0].Age < 0 {
		t.Fatalf("after the end: %+v", got)
	}
	if again := f.take(10); len(again) != 0 {
		t.Errorf("two senders: %+v", again)
	}
	f.settle(got[0], store.CallbackEnd{Error: "it is\x00 down"})
	second := f.take(10)
	if len(second) != 1 || second[0].Try != 2 || second[0].Delivery != got[0].Delivery {
		t.Fatalf("the second try: %+v, want the delivery of %+v", second, got)
	}
	f.settle(got[0], store.CallbackEnd{Delivered: true}) // by a sender whose lease has expired
	if d := f.batch(id).Callback; d.Tries != 2 || d.LastError != "it is\ufffd down" || !d.DeliveredAt.IsZero() {
		t.Errorf("a late settlement counted: %+v", d)
	}
	f.settle(second[0], store.CallbackEnd{Again: time.Hour, Error: "still"})
	if again := f.take(10); len(again) != 0 {
		t.Errorf("before its time: %+v", again)
	}
	f.settle(second[0], store.CallbackEnd{Delivered: true})
	if d := f.batch(id).Callback; d.DeliveredAt.IsZero() || d.LastError != "" {
		t.Errorf("delivered: %+v", d)
	}
	f.settle(second[0], store.CallbackEnd{GivenUp: true})
	if d := f.batch(id).Callback; !d.GivenUpAt.IsZero() || len(f.take(10)) != 0 {
		t.Errorf("after the end: %+v", d)
	}

	// A repeated batch sends to the same receiver, as another delivery.
	retry, err := f.RetryBatch(ctx, id, newBatch())
	f.must(err)
	if d := f.batch(retry).Callback; d == nil || (job.Callback{URL: d.URL, SecretRef: d.SecretRef}) != callback || d.ID == got[0].Delivery || d.Tries != 0 {
		t.Errorf("of the retry: %+v", d)
	}
	f.finishAll(job.Succeeded)
	gone := f.take(10)
	f.settle(gone[0], store.CallbackEnd{GivenUp: true, Error: "gone"})
	if d := f.batch(retry).Callback; d.GivenUpAt.IsZero() || d.LastError != "gone" || len(f.take(10)) != 0 {
		t.Errorf("given up: %+v", d)
	}
	testCallbackOfOpenBatch(f)
	testCallbackTurns(f)
	testCallbackShare(f)
	testCallbackLease(f)
}

func testCallbackOfOpenBatch(f *fixture) {
	b := newBatch()
	b.Callback = &callback
	id, _, err := f.OpenBatch(f.Context(), b)
	f.must(err)
	f.must(f.AppendJobs(f.Context(), id, newJobs(1)))
	f.must(f.SealBatch(f.Context(), id, 1))
	f.finishAll(job.Succeeded)
	if got := f.take(10); len(got) != 1 || got[0].Batch != id {
		f.Errorf("of a batch that was open: %+v", got)
	}
	dropped, _, err := f.OpenBatch(f.Context(), func() store.NewBatch { b.ID = job.NewID(); return b }())
	f.must(err)
	f.must(f.DropBatch(f.Context(), dropped))
	if got := f.take(10); len(got) != 0 {
		f.Errorf("of a dropped batch: %+v", got)
	}
}

// A tenant with many callbacks does not delay the others. Each callback is taken by one sender, whatever the
// number of senders.
func testCallbackTurns(f *fixture) {
	for range 20 {
		f.told("flood")
	}
	other := f.told("other")
	f.finishAll(job.Succeeded)
	if got := f.take(2); !slices.ContainsFunc(got, func(c store.CallbackTry) bool { return c.Batch == other }) {
		f.Errorf("the other tenant has to wait: %+v", got)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	taken := map[job.ID]int{}
	for range 8 {
		wg.Go(func() {
			for range 10 {
				got, _, err := f.TakeCallbacks(f.Context(), store.CallbackQuery{N: 3, Lease: time.Minute})
				if err != nil {
					f.Error(err)
				}
				mu.Lock()
				for _, c := range got {
					taken[c.Batch]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range taken {
		if n != 1 {
			f.Errorf("the callback of %s was taken %d times", id, n)
		}
	}
	if len(taken) != 19 {
		f.Errorf("%d were taken, want 19", len(taken))
	}
}

// A tenant gets its share of a call, or none if it is left out.
func testCallbackShare(f *fixture) {
	for range 6 {
		f.told("many")
	}
	other := f.told("few")
	f.finishAll(job.Succeeded)
	if n, err := f.OpenCallbacks(f.Context(), "many"); err != nil || n != 6 {
		f.Errorf("%d callbacks are open, %v", n, err)
	}
	taken := func(q store.CallbackQuery) map[string]int {
		got, next, err := f.TakeCallbacks(f.Context(), q)
		f.must(err)
		if next != 0 {
			f.Errorf("of two tenants, it goes on after %d", next)
		}
		of := map[string]int{}
		for _, c := range got {
			of[c.Tenant]++
		}
		return of
	}
	if got := taken(store.CallbackQuery{N: 10, Lease: time.Minute, Except: []string{"many"}}); got["many"] != 0 || got["few"] != 1 {
		f.Errorf("without many: %v, want %s", got, other)
	}
	if got := taken(store.CallbackQuery{N: 10, Share: 4, Lease: time.Minute}); got["many"] != 4 {
		f.Errorf("with a share of 4: %v", got)
	}
	if got := taken(store.CallbackQuery{N: 10, Lease: time.Minute}); got["many"] != 2 {
		f.Errorf("the rest: %v", got)
	}
}

// A dead sender is replaced when its lease expires.
func testCallbackLease(f *fixture) {
	id := f.told(tenant)
	f.finishAll(job.Succeeded)
	got, _, err := f.TakeCallbacks(f.Context(), store.CallbackQuery{N: 1, Lease: time.Millisecond})
	f.must(err)
	if len(got) != 1 || got[0].Batch != id {
		f.Fatalf("taken: %+v", got)
	}
	f.eventually("another sender", func() bool {
		again := f.take(1)
		return len(again) == 1 && again[0].Try == 2 && again[0].Delivery == got[0].Delivery
	})
}
