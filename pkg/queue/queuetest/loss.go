package queuetest

import (
	"context"
	"errors"
	"testing"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// testLoseAll checks that after a total loss the queue works as before, including a fetch in
// progress.
func testLoseAll(t *testing.T, start starter) {
	b := start(t, longAck)
	q := b.Connect(t)
	c := consume(t, q, pool)
	ds := dispatches(20)
	publish(t, q, ds...)
	held := take(t, c, 1)[0]
	b.LoseAll(t)

	publish(t, q, ds...) // as the reaper does
	ack(t, held)         // acknowledging a lost message is harmless
	ms := take(t, c, len(ds))
	wantEach(t, ms, ds)
	ack(t, ms...)

	out := make(chan queue.Message, 1)
	stop := keepFetching(t, c, out)
	defer stop()
	b.LoseAll(t)
	d := dispatches(1)[0]
	publish(t, q, d)
	m := eventually(t, "a delivery to the fetch that was under way", out)
	wantEach(t, []queue.Message{m}, []store.Dispatch{d})
}

func testLoseConsumer(t *testing.T, start starter) {
	b := start(t, longAck)
	q := b.Connect(t)
	c := consume(t, q, pool)
	ds := dispatches(2)
	publish(t, q, ds[0])
	b.LoseConsumer(t, pool)
	m := takeSoon(t, c)
	wantEach(t, []queue.Message{m}, ds[:1])
	ack(t, m)

	out := make(chan queue.Message, 1)
	stop := keepFetching(t, c, out)
	defer stop()
	b.LoseConsumer(t, pool)
	publish(t, q, ds[1])
	m = eventually(t, "a delivery to the fetch that was under way", out)
	for m.Ref() == ds[0].Ref { // its acknowledgement was in transit, and was lost with the consumer
		ack(t, m)
		m = eventually(t, "a delivery to the fetch that was under way", out)
	}
	wantEach(t, []queue.Message{m}, ds[1:])
}

// testRestart checks that queued messages survive a restart, and every part works again.
func testRestart(t *testing.T, start starter) {
	b := start(t, longAck)
	dispatcher, worker := b.Connect(t), b.Connect(t)
	c := consume(t, worker, pool)
	serve(t, dispatcher, echo{})
	canceled := make(chan store.LeaseRef, 100)
	if err := worker.OnCancel(t.Context(), "w1", func(l store.LeaseRef) { canceled <- l }); err != nil {
		t.Fatal(err)
	}
	ds := dispatches(2)
	publish(t, dispatcher, ds[0])
	b.Restart(t)

	insist(t, "publish", func() error { return dispatcher.Publish(t.Context(), ds) })
	got := []queue.Message{takeSoon(t, c), takeSoon(t, c)}
	wantEach(t, got, ds)
	insist(t, "claim", func() error {
		_, err := worker.Claim(t.Context(), control.ClaimRequest{Refs: []store.Ref{ds[0].Ref}})
		return err
	})
	lease := store.LeaseRef{Job: ds[0].Job, Lease: 3}
	insist(t, "send a cancel", func() error { return dispatcher.SendCancel("w1", lease) })
	if l := eventually(t, "the cancel", canceled); l != lease {
		t.Errorf("cancel of %v, want %v", l, lease)
	}
}

// keepFetching fetches one message at a time, like a worker, until stop.
func keepFetching(t *testing.T, c queue.Consumer, out chan<- queue.Message) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	started := make(chan struct{})
	go func() {
		defer close(done)
		close(started)
		for ctx.Err() == nil {
			if _, err := c.Fetch(ctx, 1, patient, out); err != nil && !errors.Is(err, job.ErrUnavailable) {
				t.Errorf("fetch: %v", err)
				return
			}
		}
	}()
	<-started
	return func() {
		cancel()
		eventually(t, "the end of the fetch", done)
	}
}

// insist repeats f while the backend is unavailable.
func insist(t *testing.T, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		if err = f(); err == nil {
			return
		}
		if !errors.Is(err, job.ErrUnavailable) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	t.Fatalf("%s: still %v", what, err)
}
