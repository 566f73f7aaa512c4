package queuetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

type starter = func(*testing.T, time.Duration) Backend

func testDelivery(t *testing.T, start starter) {
	b := start(t, longAck)
	q := b.Connect(t)
	d := dispatches(1)[0]
	d.Generation = 7
	d.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	publish(t, q, d)

	c := consume(t, b.Connect(t), pool) // another process
	m := take(t, c, 1)[0]
	if m.Ref() != d.Ref {
		t.Errorf("got %v, want %v", m.Ref(), d.Ref)
	}
	if m.TraceParent() != d.TraceParent {
		t.Errorf("trace context %q, want %q", m.TraceParent(), d.TraceParent)
	}
	ack(t, m)
	none(t, c, moment)
}

// testPools checks that a pool receives only its own deliveries, regardless of its name. A message waits
// for a pool without consumers.
func testPools(t *testing.T, start starter) {
	b := start(t, longAck)
	q := b.Connect(t)
	pools := []string{"default", "gpu.large", "gpu", "a*b>c d", "größe", "", "default?isolation=vm", strings.Repeat("long", 100), strings.Repeat("%", 900)}
	ds := dispatches(len(pools))
	for i := range ds {
		ds[i].Pool = pools[i]
	}
	publish(t, q, ds...)
	for i, name := range pools {
		ms := take(t, consume(t, q, name), 1)
		wantEach(t, ms, ds[i:i+1])
		ack(t, ms...)
	}
}

func testDuplicate(t *testing.T, start starter) {
	q := start(t, longAck).Connect(t)
	c := consume(t, q, pool)
	d := dispatches(1)[0]
	publish(t, q, d)
	publish(t, q, d, d)
	m := take(t, c, 1)[0]
	publish(t, q, d) // a delivered, unacknowledged message is still queued
	none(t, c, moment)
	ack(t, m)
}

func testBigBatch(t *testing.T, start starter) {
	q := start(t, longAck).Connect(t)
	c := consume(t, q, pool)
	ds := dispatches(2500)
	publish(t, q, ds...)
	ms := take(t, c, len(ds))
	wantEach(t, ms, ds)
	ack(t, ms...)
	none(t, c, moment)
}

// testMixedBatch checks that a batch with already queued messages loses none.
func testMixedBatch(t *testing.T, start starter) {
	q := start(t, longAck).Connect(t)
	c := consume(t, q, pool)
	ds := dispatches(300)
	publish(t, q, ds[17], ds[299])
	publish(t, q, ds...)
	publish(t, q, append(ds, ds...)...)
	ms := take(t, c, len(ds))
	wantEach(t, ms, ds)
	ack(t, ms...)
	none(t, c, moment)
}

// testGenerations checks that a retry is queued while the previous attempt's message is
// unacknowledged, and outlives its acknowledgement.
func testGenerations(t *testing.T, start starter) {
	q := start(t, longAck).Connect(t)
	c := consume(t, q, pool)
	d1 := dispatches(1)[0]
	publish(t, q, d1)
	old := take(t, c, 1)[0]

	d2 := d1
	d2.Generation++
	publish(t, q, d2)
	ack(t, old)
	ms := take(t, c, 1)
	wantEach(t, ms, []store.Dispatch{d2})
	ack(t, ms...)
	none(t, c, moment)
}

func testRedelivery(t *testing.T, start starter) {
	const ackWait = time.Second
	q := start(t, ackWait).Connect(t)
	c := consume(t, q, pool)
	ds := dispatches(3)
	publish(t, q, ds...)
	first := take(t, c, 3)
	ack(t, first[0])
	again := take(t, c, 2)
	want := refs(first[1:])
	for _, m := range again {
		if want[m.Ref()] != 1 {
			t.Errorf("%v came again", m.Ref())
		}
	}
	ack(t, again...)
	none(t, c, 2*ackWait)
}

func testInProgress(t *testing.T, start starter) {
	const ackWait = 2 * time.Second
	q := start(t, ackWait).Connect(t)
	c := consume(t, q, pool)
	publish(t, q, dispatches(1)...)
	m := take(t, c, 1)[0]
	for end := time.Now().Add(2 * ackWait); time.Now().Before(end); {
		if err := m.InProgress(); err != nil {
			t.Fatal(err)
		}
		none(t, c, ackWait/5)
	}
	take(t, c, 1) // no acknowledgement: it is redelivered
}

func testNak(t *testing.T, start starter) {
	q := start(t, longAck).Connect(t)
	c := consume(t, q, pool)
	publish(t, q, dispatches(1)...)
	m := take(t, c, 1)[0]
	if err := m.Nak(0); err != nil {
		t.Fatal(err)
	}
	m = take(t, c, 1)[0]
	const delay = time.Second
	given := time.Now()
	if err := m.Nak(delay); err != nil {
		t.Fatal(err)
	}
	m = take(t, c, 1)[0]
	if waited := time.Since(given); waited < delay {
		t.Errorf("came back after %v, want at least %v", waited, delay)
	}
	ack(t, m)
}

// testBounded checks that a fetch takes only the requested number, so the rest is available to
// others at once.
func testBounded(t *testing.T, start starter) {
	b := start(t, longAck)
	q := b.Connect(t)
	ds := dispatches(10)
	publish(t, q, ds...)
	mine := take(t, consume(t, q, pool), 3)
	others := take(t, consume(t, b.Connect(t), pool), 7)
	wantEach(t, append(mine, others...), ds)
}

// testFetchWaits checks a fetch that is waiting when the message is published.
func testFetchWaits(t *testing.T, start starter) {
	q := start(t, longAck).Connect(t)
	c := consume(t, q, pool)
	out := make(chan queue.Message, 5)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := fetching(ctx, c, 5, out)
	ds := dispatches(2)
	publish(t, q, ds[0])
	first := eventually(t, "the first message, while the fetch goes on", out)
	publish(t, q, ds[1])
	second := eventually(t, "the second message", out)
	wantEach(t, []queue.Message{first, second}, ds)
	cancel()
	if end := eventually(t, "the end of the fetch", done); end.err != nil || end.sent != len(ds) {
		t.Errorf("it says that it has sent %d messages, want %d: %v", end.sent, len(ds), end.err)
	}
	if n, err := c.Fetch(t.Context(), 1, time.Millisecond, out); err != nil || n != 0 {
		t.Errorf("a fetch whose time is over: %d messages, %v", n, err)
	}
}

// fetched is the result of a fetch.
type fetched struct {
	sent int
	err  error
}

// fetching starts a fetch.
func fetching(ctx context.Context, c queue.Consumer, n int, out chan<- queue.Message) <-chan fetched {
	done := make(chan fetched, 1)
	go func() {
		sent, err := c.Fetch(ctx, n, time.Minute, out)
		done <- fetched{sent, err}
	}()
	return done
}

// testFetchCanceled checks that messages in transit are returned at once when a fetch is canceled,
// not after the ack wait.
func testFetchCanceled(t *testing.T, start starter) {
	q := start(t, longAck).Connect(t)
	c := consume(t, q, pool)
	for range 20 {
		ds := dispatches(50)
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan queue.Message, len(ds))
		done := fetching(ctx, c, len(ds), out)
		published := make(chan error, 1)
		go func() { published <- q.Publish(t.Context(), ds) }()
		first := eventually(t, "a message", out)
		cancel()
		end := eventually(t, "the fetch", done)
		if err := errors.Join(end.err, eventually(t, "the publish", published)); err != nil {
			t.Fatal(err)
		}
		if got := len(out) + 1; end.sent != got {
			t.Fatalf("it says that it has sent %d messages, and %d came", end.sent, got)
		}
		close(out)
		ms := []queue.Message{first}
		for m := range out {
			ms = append(ms, m)
		}
		ms = append(ms, take(t, c, len(ds)-len(ms))...)
		wantEach(t, ms, ds)
		ack(t, ms...)
	}
}

// takeSoon fetches one message although the backend may be unavailable for a moment.
func takeSoon(t *testing.T, c queue.Consumer) queue.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for ctx.Err() == nil {
		ms, err := fetch(ctx, c, 1, patient)
		if err != nil && !errors.Is(err, job.ErrUnavailable) {
			t.Fatal(err)
		}
		if len(ms) == 1 {
			return ms[0]
		}
	}
	t.Fatal("nothing was delivered")
	return nil
}

// testFetchNoWait checks that a fetch without a wait takes available messages and returns. Just
// published messages may be in transit, so all of them take a few fetches.
func testFetchNoWait(t *testing.T, start starter) {
	q := start(t, longAck).Connect(t)
	c := consume(t, q, pool)
	ds := dispatches(3)
	publish(t, q, ds...)
	now := func() (ms []queue.Message) {
		out := make(chan queue.Message, 10)
		began := time.Now()
		if n, err := c.Fetch(t.Context(), cap(out), 0, out); err != nil || n != len(out) {
			t.Fatalf("%d messages, and it says %d: %v", len(out), n, err)
		}
		if took := time.Since(began); took > patient {
			t.Fatalf("a fetch without a wait took %v", took)
		}
		close(out)
		for m := range out {
			ms = append(ms, m)
		}
		return ms
	}
	var got []queue.Message
	for end := time.Now().Add(patient); len(got) < len(ds) && time.Now().Before(end); {
		got = append(got, now()...)
	}
	wantEach(t, got, ds)
	ack(t, got...)
	if more := now(); len(more) != 0 {
		t.Errorf("%d messages more", len(more))
	}
}
