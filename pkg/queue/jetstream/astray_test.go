package jetstream_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// tap receives all messages, with the rights of a dispatcher.
func (s *scene) tap(t *testing.T) *nats.Subscription {
	t.Helper()
	nc, err := nats.Connect(s.url, nats.Nkey(publicOf(s.key), s.key.Dispatcher().Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	tap, err := nc.SubscribeSync(">")
	if err == nil {
		err = tap.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return tap
}

// TestLedAstray checks that no request of a worker makes a dispatcher or the server publish where the worker
// may not. Every request is tried with every dangerous subject: as the subject of the answer, of the rest of
// a body, and of a delivery.
func TestLedAstray(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	e := s.evil
	canceled := make(chan store.LeaseRef, 10)
	victim := connectAs(t, s.server, s.key, "victim", "default", 0)
	if err := victim.OnCancel(t.Context(), "victim", func(l store.LeaseRef) { canceled <- l }); err != nil {
		t.Fatal(err)
	}
	tap := s.tap(t)
	targets := []string{
		"$JS.API.STREAM.DELETE.JOBS", "$JS.API.STREAM.PURGE.JOBS", "$JS.API.STREAM.UPDATE.JOBS",
		"$JS.API.CONSUMER.DELETE.JOBS." + s.consumer("default"), "$JS.API.CONSUMER.DELETE.JOBS." + s.consumer("gpu"),
		"$JS.API.CONSUMER.RESET.JOBS." + s.consumer("gpu"), "$JS.ACK.JOBS." + s.consumer("gpu") + ".1.4.1.1.0", "$JS.ACK.OTHER.x.1.1.1.1.1",
		"$SYS.REQ.USER.AUTH", "jobs.default.normal." + anID + ".1", "assay.wake.schedule",
		"assay.to.victim.cancel", "assay.to.victim.session", "assay.req.default.victim.heartbeat", "assay.req.gpu.evil.claim",
		"assay.pool.default.classes", "assay.ans.victim.abc.1", "assay.rest.victim.abc",
		"_INBOX.d.abc", "_INBOX.w.victim.abc", "_INBOX.w.evilx.abc", "_INBOX.w.evil.>", "_INBOX.w.evil.*.a", "_INBOX.w.evil",
	}
	tries := 0
	try := func(kind, reply, body string, header ...string) {
		t.Helper()
		tries++
		if err := e.pub("assay.req.default.evil."+kind, reply, body, header...); err != nil {
			t.Fatal(err)
		}
	}
	shown := []string{"Assay-Key", base64.RawURLEncoding.EncodeToString(append(make([]byte, 31), 9))}
	rest := s.rest(t, shown)
	for _, target := range targets {
		for kind, body := range map[string]string{
			"claim": `{}`, "heartbeat": `{}`, "finish": `{}`, "release": `{}`,
			"pull": `{"class":"default","batch":1}`, "ack": `{"class":"default"}`, "tell.x": `x`, "nonsense": `x`,
		} {
			try(kind, target, body, shown...)
			try(kind, target, `nonsense`)
			if kind != "pull" { // then the subject is permitted, and the tap's interest has answered
				try(kind, "_INBOX.w.evil.a", body, append([]string{"Assay-Size", "1000", "Assay-Rest", target}, shown...)...)
			}
		}
		for _, do := range []string{"ack", "nak", "progress", "term"} {
			receipt := fmt.Sprintf(`{"class":"default","receipts":[{"to":%q,"do":%q}]}`, target, do)
			try("ack", "", receipt)
			try("ack", target, receipt)
		}
		tries++
		if err := e.pub(rest, target, "1"); err != nil { // the rest of an answer goes astray
			t.Fatal(err)
		}
		s.asked(t, target)
	}
	for _, class := range []string{"gpu", "gpu?label.a=b", "default?nonsense"} { // deliveries of other pools
		try("pull", "_INBOX.w.evil.gpu", fmt.Sprintf(`{"class":%q,"batch":10}`, class))
		try("ack", "", fmt.Sprintf(`{"class":%q,"receipts":[{"to":"$JS.ACK.JOBS.%s.1.4.1.1.0","do":"ack"}]}`, class, s.consumer("gpu")))
	}

	// Permitted: a pull in the inbox, and a receipt for a delivery.
	in, err := e.nc.SubscribeSync("_INBOX.w.evil.>")
	if err != nil {
		t.Fatal(err)
	}
	try("pull", "_INBOX.w.evil.mine", `{"class":"default","batch":1}`)
	delivery := next(t, in)
	if err := e.nc.PublishMsg(&nats.Msg{Subject: delivery.Reply, Reply: "$JS.API.STREAM.DELETE.JOBS", Data: []byte("+ACK")}); err != nil {
		t.Fatal(err)
	}
	if e.refusal() == nil {
		t.Error("could answer a delivery where it says, and have the stream deleted")
	}
	s.silent(t, e)
	s.untouched(t, 6, 1)

	// Each was dealt with, and the tap would have shown it.
	if err := s.dispatcher.SendCancel("victim", store.LeaseRef{Job: anID, Lease: 7}); err != nil {
		t.Fatal(err)
	}
	if l := testenv.Receive(t, "the cancel", canceled); l.Lease != 7 {
		t.Errorf("another worker was told to cancel %+v", l)
	}
	astray := map[string]bool{}
	for _, target := range targets {
		astray[target] = true
	}
	for seen := false; !seen; {
		m, err := tap.NextMsg(30 * time.Second)
		if err != nil {
			t.Fatal("the tap is dead: ", err)
		}
		seen = m.Subject == "assay.to.victim.cancel" && strings.Contains(string(m.Data), `7`)
		if astray[m.Subject] && !seen {
			t.Errorf("%s: somebody was led to say %.100q", m.Subject, m.Data)
		}
	}
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	for _, spoken := range s.heard.spoke {
		if strings.Contains(spoken, "victim") || strings.Contains(spoken, "gpu") {
			t.Errorf("a dispatcher heard %q", spoken)
		}
	}
	t.Logf("%d tries", tries)
}

// next returns the next delivery among what comes.
func next(t *testing.T, in *nats.Subscription) *nats.Msg {
	t.Helper()
	for {
		m, err := in.NextMsg(30 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(m.Reply, "$JS.ACK.") {
			return m
		}
	}
}

// rest has a dispatcher keep the rest of an answer, and returns where.
func (s *scene) rest(t *testing.T, shown []string) string {
	t.Helper()
	in, err := s.evil.nc.SubscribeSync("_INBOX.w.evil.rest")
	if err != nil {
		t.Fatal(err)
	}
	claim, err := control.Encode(control.ClaimRequest{Refs: []store.Ref{{Job: anID, Generation: large}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.evil.pub("assay.req.default.evil.claim", "_INBOX.w.evil.rest", string(claim), shown...); err != nil {
		t.Fatal(err)
	}
	m, err := in.NextMsg(30 * time.Second)
	if err != nil || m.Header.Get("Assay-Rest") == "" {
		t.Fatalf("%v, %+v", err, m)
	}
	return m.Header.Get("Assay-Rest")
}

// asked has a dispatcher ask the worker something, which answers astray.
func (s *scene) asked(t *testing.T, target string) {
	t.Helper()
	e := s.evil
	sub, err := e.nc.Subscribe("assay.to.evil.>", func(m *nats.Msg) {
		answer := &nats.Msg{Subject: m.Reply, Reply: target, Header: nats.Header{}}
		if strings.HasPrefix(target, "$JS.ACK.") {
			answer.Reply = "" // such replies the server refuses
		}
		if strings.HasSuffix(m.Subject, ".key") {
			answer.Data = []byte(base64.RawURLEncoding.EncodeToString(append(make([]byte, 31), 9)))
		} else {
			answer.Header["Assay-Size"], answer.Header["Assay-Rest"] = []string{"1000"}, []string{target}
		}
		_ = e.nc.PublishMsg(answer)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := e.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.dispatcher.Assign(ctx, "evil", control.Assignment{}); err == nil || ctx.Err() != nil {
		t.Errorf("an answer whose rest is at %s: %v", target, err)
	}
}

// silent waits until the dispatcher has handled all messages of a worker so far.
func (s *scene) silent(t *testing.T, e *evil) {
	t.Helper()
	for _, kind := range []string{"claim", "heartbeat", "finish", "release", "pull"} {
		inbox := "_INBOX.w.evil.last." + kind
		in, err := e.nc.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.pub("assay.req.default.evil."+kind, inbox, `{"class":"gpu"}`); err != nil { // without a key, or of another pool: an error
			t.Fatal(err)
		}
		if _, err := in.NextMsg(30 * time.Second); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
}

// TestOnlyOfItsPool checks that a worker has no deliveries and no consumers of other pools, whatever pool its
// messages name.
func TestOnlyOfItsPool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	own := connectAs(t, s.server, s.key, "evil", "default", 0)
	for _, class := range []string{"gpu", "gpu?label.a=b", "default?nonsense"} {
		c, err := own.Consumer(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		out := make(chan queue.Message, 1)
		if _, err := c.Fetch(t.Context(), 1, time.Minute, out); !errors.Is(err, job.ErrRefused) || len(out) > 0 {
			t.Errorf("%d deliveries of %s: %v, want %v", len(out), class, err, job.ErrRefused)
		}
	}
	if _, err := own.Heartbeat(t.Context(), control.HeartbeatRequest{Worker: control.WorkerInfo{ID: "evil", Pool: "gpu"}}); err != nil {
		t.Fatal(err)
	}
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	if got := s.heard.spoke; len(got) != 1 || got[0] != "heartbeat evil default" {
		t.Errorf("a dispatcher heard %q", got)
	}
	s.untouched(t, 6, 0)
}

// TestWorkerWaitsForConsumer checks that a worker makes no consumer and no stream. Without a consumer it
// waits, reports that, and takes its deliveries once a dispatcher has made the consumer. At first there is no
// dispatcher, on a server that accepts every client.
func TestWorkerWaitsForConsumer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	w := connect(t, jetstream.Config{URL: s.url, Worker: &identity.Worker{ID: "w", Pool: "p"}})
	c, err := w.Consumer(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan queue.Message, 1)
	_, err = c.Fetch(t.Context(), 1, time.Minute, out)
	if !errors.Is(err, job.ErrUnavailable) || !strings.Contains(err.Error(), "no dispatcher to relay it") {
		t.Fatalf("without a dispatcher: %v", err)
	}
	for range s.admin(t).StreamNames(t.Context()).Name() {
		t.Error("a worker has made a stream")
	}
	got := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for len(out) == 0 && ctx.Err() == nil { // as a worker does
			_, err = c.Fetch(ctx, 1, time.Minute, out)
		}
		got <- err
	}()
	d := store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: "p"}
	if err := connect(t, jetstream.Config{URL: s.url}).Publish(t.Context(), []store.Dispatch{d}); err != nil {
		t.Fatal(err)
	}
	if err := testenv.Receive(t, "the end of the fetch", got); err != nil {
		t.Fatal(err)
	}
	if m := testenv.Receive(t, "the message", out); m.Ref() != d.Ref {
		t.Errorf("delivered %v, want %v", m.Ref(), d.Ref)
	}
}
