package jetstream_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// TestStreamConfig: each of these is a promise of delivery; see the reasons in
// stream.go.
func TestStreamConfig(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	q := connect(t, jetstream.Config{URL: s.url})
	if _, err := q.Consumer(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	stream, err := s.admin(t).Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.Retention != natsjs.WorkQueuePolicy || c.Storage != natsjs.FileStorage || c.MaxMsgsPerSubject != 1 || c.MaxAge != 24*time.Hour ||
		c.Discard != natsjs.DiscardNew || !c.DiscardNewPerSubject || !c.AllowAtomicPublish {
		t.Errorf("stream config is %+v", c)
	}
	consumer, err := stream.Consumer(t.Context(), "pool-p")
	if err != nil {
		t.Fatal(err)
	}
	cc := consumer.CachedInfo().Config
	if cc.AckPolicy != natsjs.AckExplicitPolicy || cc.AckWait != 30*time.Second || cc.MaxDeliver != -1 ||
		len(cc.BackOff) != 0 || cc.MaxAckPending != -1 || cc.MaxWaiting < 1000 {
		t.Errorf("consumer config is %+v", cc)
	}
}

// TestFullStreamIsAnError: the server's code for "already queued" is also its
// code for having no room, which must not pass for success.
func TestFullStreamIsAnError(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	q := connect(t, jetstream.Config{URL: s.url})
	js := s.admin(t)
	stream, err := js.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgs = 1
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 50} {
		ds := make([]store.Dispatch, n)
		for i := range ds {
			ds[i] = store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: "p"}
		}
		if err := q.Publish(t.Context(), ds); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("%d messages into a full stream: got %v, want %v", n, err, job.ErrUnavailable)
		}
	}
}

// TestSweepSparesWhatIsNotDone checks that a sweep keeps waiting jobs and jobs at a worker, whatever other
// consumers have finished. It removes remains of a full disk: see row 36 of test/chaos.
func TestSweepSparesWhatIsNotDone(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	q := connect(t, jetstream.Config{URL: s.url})
	for n := range 6 {
		d := store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: []string{"p", "r"}[n%2]}
		if err := q.Publish(t.Context(), []store.Dispatch{d}); err != nil {
			t.Fatal(err)
		}
	}
	for _, pool := range []string{"p", "r"} { // "r" has a consumer, and asks for nothing
		c, err := q.Consumer(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		if pool == "r" {
			break
		}
		out := make(chan queue.Message, 2)
		if n, err := c.Fetch(t.Context(), 2, 10*time.Second, out); err != nil || len(out) != 2 || n != 2 {
			t.Fatalf("%d messages, %d sent, %v", len(out), n, err)
		}
		<-out // with a worker
		if err := (<-out).Ack(); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := s.admin(t).Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	messages := func() uint64 {
		i, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return i.State.Msgs
	}
	for deadline := time.Now().Add(10 * time.Second); messages() != 5 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
	}
	if err := q.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := messages(); got != 5 {
		t.Errorf("%d messages are left, want 5", got)
	}
}

// TestForeignMessage checks that a foreign message is dropped, instead of being delivered for ever.
func TestForeignMessage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	q := connect(t, jetstream.Config{URL: s.url, AckWait: time.Second})
	c, err := q.Consumer(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	js := s.admin(t)
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "jobs.p.what.is.this"}); err != nil {
		t.Fatal(err)
	}
	out := make(chan queue.Message, 1)
	if n, err := c.Fetch(t.Context(), 1, 200*time.Millisecond, out); err != nil || len(out) > 0 || n != 0 { // dropped messages are not sent
		t.Fatalf("fetched %d, %d sent, error %v", len(out), n, err)
	}
	stream, err := js.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the message is still there")
		}
	}
}

func TestConnectGivesUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := jetstream.Connect(ctx, jetstream.Config{URL: "nats://127.0.0.1:1", Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, job.ErrUnavailable)
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	q := connect(t, jetstream.Config{URL: s.url})
	if err := q.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.admin(t).DeleteStream(t.Context(), "JOBS"); err != nil {
		t.Fatal(err)
	}
	if err := q.Ping(t.Context()); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("without a stream: got %v, want %v", err, job.ErrUnavailable)
	}
}

// TestDeadStream: a stream whose files are gone answers nothing any more; it is
// made anew.
func TestDeadStream(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	q := connect(t, jetstream.Config{URL: s.url, RemakeAfter: 3 * time.Second})
	patient := connect(t, jetstream.Config{URL: s.url})
	c, err := q.Consumer(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := s.admin(t).Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "jetstream", "$G", "streams", "JOBS")); err != nil {
		t.Fatal(err)
	}
	_ = stream.Purge(t.Context()) // makes the server open its next file

	d := store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: "p"}
	if err := patient.Publish(t.Context(), []store.Dispatch{d}); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("a stream that is silent for seconds: got %v, want %v", err, job.ErrUnavailable)
	}
	if now, err := s.admin(t).Stream(t.Context(), "JOBS"); err != nil || !now.CachedInfo().Created.Equal(stream.CachedInfo().Created) {
		t.Fatalf("it was made anew after seconds: %v", err)
	}
	for try := 0; ; try++ { // it takes several calls if the machine is slow
		if err := q.Publish(t.Context(), []store.Dispatch{d}); err == nil {
			break
		} else if try == 5 {
			t.Fatal(err)
		}
	}
	out := make(chan queue.Message, 1)
	for end := time.Now().Add(time.Minute); len(out) == 0 && time.Now().Before(end); {
		if _, err := c.Fetch(t.Context(), 1, 5*time.Second, out); err != nil {
			t.Fatal(err)
		}
	}
	if m := testenv.Receive(t, "the message", out); m.Ref() != d.Ref {
		t.Errorf("delivered %v, want %v", m.Ref(), d.Ref)
	}
}
