package jetstream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// TestPullSaidAgain checks that a pull whose dispatcher dies or hangs before it answers is sent again to
// another dispatcher.
func TestPullSaidAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	w := connect(t, jetstream.Config{URL: s.url, Worker: &identity.Worker{ID: "w", Pool: "p"}})
	nc, err := nats.Connect(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	hung := make(chan *nats.Msg, 100)
	if _, err := nc.ChanQueueSubscribe("assay.req.*.*.pull", "dispatchers", hung); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c, err := w.Consumer(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, done := make(chan queue.Message, 1), make(chan error, 1)
	go func() {
		var err error
		for err == nil && len(out) == 0 && ctx.Err() == nil {
			_, err = c.Fetch(ctx, 1, time.Minute, out)
		}
		done <- err
	}()
	testenv.Receive(t, "the request that hangs", hung)
	d := store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: "p"}
	if err := connect(t, jetstream.Config{URL: s.url}).Publish(t.Context(), []store.Dispatch{d}); err != nil {
		t.Fatal(err)
	}
	if err := testenv.Receive(t, "the end of the fetch", done); err != nil || len(out) != 1 {
		t.Fatalf("%d deliveries, %v", len(out), err)
	}
}

// TestConsumerLostWhileIdle: a consumer that is deleted while no pull waits at it is made
// again by the dispatcher that the next pull comes to.
func TestConsumerLostWhileIdle(t *testing.T) {
	t.Parallel()
	s, key := guarded(t)
	d := connect(t, jetstream.Config{URL: s.url, Key: key})
	w := connectAs(t, s, key, "w", "default", 0)
	c, err := w.Consumer(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	fetch := func() {
		t.Helper()
		ref := store.Ref{Job: job.NewID(), Generation: 1}
		if err := d.Publish(t.Context(), []store.Dispatch{{Ref: ref, Pool: "default"}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out := make(chan queue.Message, 1)
		for len(out) == 0 && ctx.Err() == nil {
			if _, err := c.Fetch(ctx, 1, time.Second, out); err != nil {
				t.Fatal(err)
			}
		}
		m := testenv.Receive(t, "the message", out)
		if m.Ref() != ref {
			t.Errorf("delivered %v, want %v", m.Ref(), ref)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
		stream, err := s.adminAs(t, key).Stream(t.Context(), "JOBS")
		if err != nil {
			t.Fatal(err)
		}
		for ctx.Err() == nil { // the receipt arrives
			info, err := stream.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if info.State.Msgs == 0 {
				return
			}
		}
		t.Fatal("the message is still there")
	}
	fetch()
	if err := s.adminAs(t, key).DeleteConsumer(t.Context(), "JOBS", "pool-default-"+key.Name("consumer default")); err != nil {
		t.Fatal(err)
	}
	fetch()
}

// TestReceiptOfAnother checks that a worker cannot acknowledge a delivery to another worker. Workers of a
// pool share a consumer, and the numbers of deliveries can be guessed, but not their jobs.
func TestReceiptOfAnother(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	w := connectAs(t, s.server, s.key, "victim", "default", 0)
	c, err := w.Consumer(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan queue.Message, 3)
	if _, err := c.Fetch(t.Context(), 3, 30*time.Second, out); err != nil || len(out) != 3 {
		t.Fatalf("%d deliveries, %v", len(out), err)
	}
	in, err := s.evil.nc.SubscribeSync("_INBOX.w.evil.mine")
	if err != nil {
		t.Fatal(err)
	}
	mine := s.publish(t, "default", 1)[0].Ref
	if err := s.evil.pub("assay.req.default.evil.pull", "_INBOX.w.evil.mine", `{"class":"default","batch":1,"wait":"30s"}`); err != nil {
		t.Fatal(err)
	}
	own := next(t, in)
	say := func(to string, ref store.Ref, do string) {
		t.Helper()
		body := fmt.Sprintf(`{"class":"default","receipts":[{"to":%q,"job":%q,"generation":%d,"do":%q}]}`, to, ref.Job, ref.Generation, do)
		if err := s.evil.pub("assay.req.default.evil.ack", "", body); err != nil {
			t.Fatal(err)
		}
	}
	victims := []uint64{1, 2, 3} // their numbers
	for _, seq := range victims {
		for _, do := range []string{"ack", "nak", "progress", "term"} {
			to := fmt.Sprintf("$JS.ACK.JOBS.%s.1.%d.%d.%d.0", s.consumer("default"), seq, seq, time.Now().UnixNano())
			say(to, mine, do)
			say(to, store.Ref{}, do)
			say(to, store.Ref{Job: job.NewID(), Generation: 1}, do)
		}
	}
	say(own.Reply, mine, "ack") // permitted subjects
	stream, err := s.admin.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs == 6 { // all but its own
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d messages", info.State.Msgs)
		}
	}
	s.silent(t, s.evil)
	time.Sleep(200 * time.Millisecond) // read from the stream by the way
	s.untouched(t, 6, 3)
	for range 3 { // and the victim may
		if err := testenv.Receive(t, "a message", out).Ack(); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(30 * time.Second); ; {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs == 3 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d messages", info.State.Msgs)
		}
	}
}

// TestReceiptsAfterRestart: a dispatcher that does not know which delivery has which
// number, because it was not there or the stream has counted anew since, reads it from the
// stream.
func TestReceiptsAfterRestart(t *testing.T) {
	t.Parallel()
	s, key := guarded(t)
	first := connect(t, jetstream.Config{URL: s.url, Key: key})
	w := connectAs(t, s, key, "w", "default", 0)
	c, err := w.Consumer(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	take := func(d *jetstream.Queue, n int) (ms []queue.Message) {
		t.Helper()
		ds := make([]store.Dispatch, n)
		for i := range ds {
			ds[i] = store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: "default"}
		}
		if err := d.Publish(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out := make(chan queue.Message, n)
		for len(out) < n && ctx.Err() == nil {
			if _, err := c.Fetch(ctx, n-len(out), time.Second, out); err != nil {
				t.Fatal(err)
			}
		}
		for range n {
			ms = append(ms, testenv.Receive(t, "a message", out))
		}
		return ms
	}
	done := func(ms []queue.Message) {
		t.Helper()
		for _, m := range ms {
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(30 * time.Second); ; {
			stream, err := s.adminAs(t, key).Stream(t.Context(), "JOBS")
			if err != nil {
				t.Fatal(err)
			}
			n := stream.CachedInfo().State.Msgs
			if n == 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d messages are still there", n)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for _, n := range []int{1, 100} { // one by one, and as a batch
		ms := take(first, n)
		done(ms)
	}
	ms := take(first, 100)
	second := connect(t, jetstream.Config{URL: s.url, Key: key})
	first.Close()
	done(ms)
	if err := s.adminAs(t, key).DeleteStream(t.Context(), "JOBS"); err != nil {
		t.Fatal(err)
	}
	done(take(second, 100))
}
