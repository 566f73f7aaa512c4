package jetstream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// TestPullSaidAgain: a dispatcher that has taken a pull and dies, or hangs, before it
// passes it on costs a moment.
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
			err = c.Fetch(ctx, 1, time.Minute, out)
		}
		done <- err
	}()
	<-hung
	d := store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: "p"}
	if err := connect(t, jetstream.Config{URL: s.url}).Publish(t.Context(), []store.Dispatch{d}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || len(out) != 1 {
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
			if err := c.Fetch(ctx, 1, time.Second, out); err != nil {
				t.Fatal(err)
			}
		}
		m := <-out
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

// TestReceiptOfAnother: workers of a pool take from one consumer, and one can say that
// another's delivery is done. It is then not made again by the server; the dispatcher,
// who knows that nobody has claimed the job, publishes it again, and it is delivered.
func TestReceiptOfAnother(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	w := connectAs(t, s.server, s.key, "victim", "default", 0)
	c, err := w.Consumer(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(n int) (ms []queue.Message) {
		t.Helper()
		out := make(chan queue.Message, n)
		if err := c.Fetch(t.Context(), n, 30*time.Second, out); err != nil || len(out) != n {
			t.Fatalf("%d deliveries, %v", len(out), err)
		}
		for range n {
			ms = append(ms, <-out)
		}
		return ms
	}
	first := fetch(3)[0]
	receipt := fmt.Sprintf(`{"class":"default","receipts":[{"to":"$JS.ACK.JOBS.%s.1.1.1.%d.0","do":"ack"}]}`, s.consumer("default"), time.Now().UnixNano())
	if err := s.evil.pub("assay.req.default.evil.ack", "", receipt); err != nil {
		t.Fatal(err)
	}
	s.silent(t, s.evil)
	again := store.Dispatch{Ref: first.Ref(), Pool: "default"}
	if err := s.dispatcher.Publish(t.Context(), []store.Dispatch{again}); err != nil { // as the reaper does
		t.Fatal(err)
	}
	if m := fetch(1)[0]; m.Ref() != first.Ref() {
		t.Errorf("delivered %v, want %v", m.Ref(), first.Ref())
	}
}
