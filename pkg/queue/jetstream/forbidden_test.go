package jetstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

const theSecret = "the spec and the secret of a job"

// scene is a fleet with a worker whose credentials somebody has got hold of.
type scene struct {
	*server
	key        *identity.Key
	dispatcher *jetstream.Queue
	admin      natsjs.JetStream
	heard      *witness
	evil       *evil
}

// witness is a dispatcher's handler that writes down who said what.
type witness struct {
	mu    sync.Mutex
	spoke []string // kind, worker
}

func (w *witness) note(kind, worker string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spoke = append(w.spoke, kind+" "+worker)
}

func (w *witness) HandleClaim(_ context.Context, r queue.ClaimRequest) (reply queue.ClaimReply, _ error) {
	w.note("claim", r.Worker)
	for _, ref := range r.Refs {
		spec, _ := json.Marshal(theSecret)
		reply.Claimed = append(reply.Claimed, store.Claimed{Ref: ref, Lease: 1, Spec: spec})
	}
	return reply, nil
}

func (w *witness) HandleHeartbeat(_ context.Context, r queue.HeartbeatRequest) (queue.HeartbeatReply, error) {
	w.note("heartbeat", r.Worker.ID+" "+r.Worker.Pool)
	return queue.HeartbeatReply{}, nil
}

func (w *witness) HandleFinish(_ context.Context, r queue.FinishRequest) (queue.FinishReply, error) {
	w.note("finish", r.Worker)
	return queue.FinishReply{}, nil
}

func (w *witness) HandleRelease(_ context.Context, r queue.ReleaseRequest) (queue.ReleaseReply, error) {
	w.note("release", r.Worker)
	return queue.ReleaseReply{}, nil
}

// evil is a client with the credentials of worker "evil" of pool "default", and none of
// our code.
type evil struct {
	nc   *nats.Conn
	errs chan error
}

func (s *scene) dial(o ...nats.Option) (*evil, error) {
	e := &evil{errs: make(chan error, 1000)}
	nc, err := nats.Connect(s.url, append([]nats.Option{
		nats.UserInfo("default.evil", s.key.Token("evil", "default")), nats.CustomInboxPrefix("_INBOX.w.evil"), nats.Timeout(10 * time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { e.errs <- err }),
	}, o...)...)
	e.nc = nc
	return e, err
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{heard: &witness{}}
	s.server, s.key = guarded(t)
	s.dispatcher = connect(t, jetstream.Config{URL: s.url, Key: s.key, Refused: []string{"expelled"}})
	s.admin = s.adminAs(t, s.key)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.dispatcher.Serve(ctx, s.heard) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	e, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.nc.Close)
	s.evil = e
	return s
}

// settle waits until the server has dealt with everything, and returns its refusal.
func (e *evil) settle() error {
	if err := e.nc.FlushTimeout(10 * time.Second); err != nil {
		return err
	}
	select {
	case err := <-e.errs:
		return err
	case <-time.After(20 * time.Millisecond): // errors come before the answer to the flush; the handler is a goroutine
		return nil
	}
}

func (e *evil) pub(subject, reply, body string, header ...string) error {
	m := &nats.Msg{Subject: subject, Reply: reply, Data: []byte(body), Header: nats.Header{}}
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	if err := e.nc.PublishMsg(m); err != nil {
		return err
	}
	return e.settle()
}

func (e *evil) sub(subject string) error {
	s, err := e.nc.SubscribeSync(subject)
	if err != nil {
		return err
	}
	defer func() { _ = s.Unsubscribe() }()
	return e.settle()
}

func (e *evil) queueSub(subject string) error {
	s, err := e.nc.QueueSubscribeSync(subject, "dispatchers")
	if err != nil {
		return err
	}
	defer func() { _ = s.Unsubscribe() }()
	return e.settle()
}

// TestForbidden: with the credentials of one worker, nothing can be said, heard, taken
// or changed that is not that worker's own. Nobody ran these on
// 5ee7338: there the server had no credentials at all, and every client could do anything.
func TestForbidden(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	e := s.evil
	if _, err := s.dispatcher.Consumer(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.dispatcher.Consumer(t.Context(), "gpu"); err != nil {
		t.Fatal(err)
	}
	of := func(pool string) store.Dispatch {
		return store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: pool}
	}
	if err := s.dispatcher.Publish(t.Context(), []store.Dispatch{of("gpu"), of("gpu"), of("gpu")}); err != nil {
		t.Fatal(err)
	}
	gpu := "pool-gpu-" + s.key.Name("consumer gpu")

	subs := map[string]string{
		"hear everything":                    ">",
		"hear everything of the fleet":       "assay.>",
		"read all inboxes":                   "_INBOX.>",
		"read another worker's inbox":        "_INBOX.w.victim.>",
		"read the dispatchers' inboxes":      "_INBOX.d.>",
		"hear what another worker is told":   "assay.to.victim.>",
		"hear what every worker is told":     "assay.to.*.assign",
		"hear another pool's classes":        "assay.pool.gpu.classes",
		"hear what workers report":           "assay.req.*.*.finish",
		"hear the sessions of others":        "assay.req.*.*.tell.>",
		"hear the dispatchers":               "assay.wake.>",
		"hear deliveries":                    "jobs.>",
		"hear requests for the rest":         "assay.rest.>",
		"hear calls of JetStream":            "$JS.API.>",
		"hear acknowledgements":              "$JS.ACK.>",
		"hear JetStream's advisories":        "$JS.EVENT.>",
		"hear of everybody who connects":     "$SYS.REQ.USER.AUTH",
		"hear the system":                    "$SYS.>",
		"hear a bucket":                      "$KV.>",
		"answer for services":                "$SRV.>",
		"an inbox whose name begins as mine": "_INBOX.w.evilx.>",
	}
	for name, subject := range subs {
		t.Run("subscribe/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if e.sub(subject) == nil {
				t.Errorf("was allowed on %s", subject)
			}
		})
	}
	t.Run("subscribe/be-one-of-the-dispatchers", func(t *testing.T) {
		for _, subject := range []string{"assay.req.*.*.claim", "assay.req.default.victim.claim", "$SYS.REQ.USER.AUTH"} {
			if e.queueSub(subject) == nil {
				t.Errorf("was allowed on %s", subject)
			}
		}
	})

	const id = "01a20dc3-5c48-7000-9596-7ffc76255d2a"
	pubs := map[string][]string{
		"forge a heartbeat":              {"assay.req.default.victim.heartbeat", `{"worker":{"id":"victim"}}`},
		"forge a heartbeat of a pool":    {"assay.req.gpu.evil.heartbeat", `{"worker":{"id":"evil","pool":"gpu"}}`},
		"forge a claim":                  {"assay.req.default.victim.claim", `{}`},
		"forge a finish":                 {"assay.req.default.victim.finish", `{}`},
		"forge a release":                {"assay.req.default.victim.release", `{}`},
		"forge the end of a session":     {"assay.req.default.victim.tell.session-ended", `{"session":"` + id + `","outcome":"failed"}`},
		"cancel another's job":           {"assay.to.victim.cancel", `{"job":"` + id + `","lease":1}`},
		"assign a job to another":        {"assay.to.victim.assign", `{}`},
		"enter another's session":        {"assay.to.victim.session", `{"op":"execute"}`},
		"assign a job to itself":         {"assay.to.evil.assign", `{}`},
		"name classes":                   {"assay.pool.default.classes", `["default?label.a=b"]`},
		"wake the dispatchers":           {"assay.wake.schedule", `x`},
		"answer another's request":       {"_INBOX.w.victim.abc.1", `{}`},
		"answer a dispatcher's request":  {"_INBOX.d.abc.1", `{}`},
		"write to its own inbox":         {"_INBOX.w.evil.abc", `{}`},
		"ask for the rest of another's":  {"assay.rest.victim.abc", `1`},
		"publish a delivery":             {"jobs.default.normal." + id + ".1", ``},
		"publish one of another pool":    {"jobs.gpu.normal." + id + ".1", ``},
		"purge the stream":               {"$JS.API.STREAM.PURGE.JOBS", ``},
		"delete the stream":              {"$JS.API.STREAM.DELETE.JOBS", ``},
		"update the stream":              {"$JS.API.STREAM.UPDATE.JOBS", `{"name":"JOBS","subjects":["nothing"]}`},
		"make a stream":                  {"$JS.API.STREAM.CREATE.SPY", `{"name":"SPY","subjects":["assay.>"]}`},
		"make a bucket":                  {"$JS.API.STREAM.CREATE.KV_spy", `{"name":"KV_spy","subjects":["$KV.spy.>"]}`},
		"make a bucket of objects":       {"$JS.API.STREAM.CREATE.OBJ_spy", `{"name":"OBJ_spy","subjects":["$O.spy.>"]}`},
		"write to a bucket":              {"$KV.spy.a", `x`},
		"describe the stream":            {"$JS.API.STREAM.INFO.JOBS", `{"subjects_filter":">"}`},
		"list streams":                   {"$JS.API.STREAM.LIST", ``},
		"name streams":                   {"$JS.API.STREAM.NAMES", ``},
		"read a message":                 {"$JS.API.STREAM.MSG.GET.JOBS", `{"seq":1}`},
		"delete a message":               {"$JS.API.STREAM.MSG.DELETE.JOBS", `{"seq":1}`},
		"read a message directly":        {"$JS.API.DIRECT.GET.JOBS", `{"seq":1}`},
		"take a snapshot":                {"$JS.API.STREAM.SNAPSHOT.JOBS", `{"deliver_subject":"_INBOX.w.evil.snap"}`},
		"restore a stream":               {"$JS.API.STREAM.RESTORE.JOBS", `{}`},
		"seal the stream":                {"$JS.API.STREAM.LEADER.STEPDOWN.JOBS", ``},
		"list consumers":                 {"$JS.API.CONSUMER.LIST.JOBS", ``},
		"name consumers":                 {"$JS.API.CONSUMER.NAMES.JOBS", ``},
		"describe its own consumer":      {"$JS.API.CONSUMER.INFO.JOBS.pool-default", ``},
		"describe another's consumer":    {"$JS.API.CONSUMER.INFO.JOBS." + gpu, ``},
		"make a consumer":                {"$JS.API.CONSUMER.CREATE.JOBS.spy", `{"stream_name":"JOBS","config":{"name":"spy","filter_subject":"jobs.x"}}`},
		"make a durable consumer":        {"$JS.API.CONSUMER.DURABLE.CREATE.JOBS.spy", `{"stream_name":"JOBS","config":{"durable_name":"spy"}}`},
		"delete a consumer":              {"$JS.API.CONSUMER.DELETE.JOBS." + gpu, ``},
		"pause a consumer":               {"$JS.API.CONSUMER.PAUSE.JOBS." + gpu, `{"pause_until":"2100-01-01T00:00:00Z"}`},
		"reset a consumer":               {"$JS.API.CONSUMER.RESET.JOBS." + gpu, `{}`},
		"take from another stream":       {"$JS.API.CONSUMER.MSG.NEXT.OTHER.x", `1`},
		"acknowledge in another stream":  {"$JS.ACK.OTHER.x.1.1.1.1.1", `+ACK`},
		"describe the account":           {"$JS.API.INFO", ``},
		"ask the system":                 {"$SYS.REQ.SERVER.PING", ``},
		"ask the system about others":    {"$SYS.REQ.ACCOUNT.PING.CONNZ", ``},
		"let somebody in":                {"$SYS.REQ.USER.AUTH", `x`},
		"end a connection":               {"$SYS.REQ.SERVER.x.KICK", `{"cid":1}`},
		"speak for a name like its own":  {"assay.req.default.evilx.finish", `{}`},
		"speak for nobody in particular": {"assay.req.default.=.finish", `{}`},
	}
	for name, p := range pubs {
		t.Run("publish/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if e.pub(p[0], "_INBOX.w.evil.answer", p[1]) == nil {
				t.Errorf("was allowed on %s", p[0])
			}
		})
	}
	for _, spoken := range s.heard.spoke {
		t.Errorf("a dispatcher heard %q", spoken)
	}
	s.untouched(t, 3)
	if got := len(subs) + 1 + len(pubs); got < 20 {
		t.Errorf("%d operations were tried", got)
	}
}

// untouched checks that the stream and its consumers are as they were.
func (s *scene) untouched(t *testing.T, messages uint64) {
	t.Helper()
	stream, err := s.admin.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	if st := stream.CachedInfo().State; st.Msgs != messages || st.Consumers != 2 {
		t.Errorf("the stream has %d messages and %d consumers", st.Msgs, st.Consumers)
	}
	names := 0
	for range s.admin.StreamNames(t.Context()).Name() {
		names++
	}
	if names != 1 {
		t.Errorf("%d streams", names)
	}
	c, err := stream.Consumer(t.Context(), "pool-gpu-"+s.key.Name("consumer gpu"))
	if err != nil {
		t.Fatal(err)
	}
	if i := c.CachedInfo(); i.NumPending != 3 || i.NumAckPending != 0 || i.Paused {
		t.Errorf("the consumer of the other pool: %+v", i)
	}
}

// TestLedAstray: what a worker may say does not lead the dispatcher, or the server, to
// do for it what it may not do itself.
func TestLedAstray(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	e := s.evil
	for _, pool := range []string{"default", "gpu"} {
		if _, err := s.dispatcher.Consumer(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			d := store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: pool}
			if err := s.dispatcher.Publish(t.Context(), []store.Dispatch{d}); err != nil {
				t.Fatal(err)
			}
		}
	}
	mine := "pool-default-" + s.key.Name("consumer default")
	shown := []string{"Assay-Key", strings.Repeat("A", 43)}
	canceled := make(chan store.LeaseRef, 10)
	victim := connectAs(t, s.server, s.key, "victim", "default", 0)
	if err := victim.OnCancel(t.Context(), "victim", func(l store.LeaseRef) { canceled <- l }); err != nil {
		t.Fatal(err)
	}
	// (A consumer whose name it knows, that of its own pool, it can have deleted in this way:
	// the answer to a pull goes where the pull says. The next fetch has it made again.)
	api := []string{"$JS.API.STREAM.PURGE.JOBS", "$JS.API.STREAM.DELETE.JOBS",
		"assay.to.victim.cancel", "assay.req.default.victim.heartbeat"}
	for _, target := range api {
		for _, kind := range []string{"claim", "heartbeat", "finish", "release", "consumer"} { // the answer goes astray
			if err := e.pub("assay.req.default.evil."+kind, target, `{}`, shown...); err != nil {
				t.Fatal(err)
			}
		}
		frame := append([]string{"Assay-Size", "100", "Assay-Rest", target}, shown...) // the request for more goes astray
		if err := e.pub("assay.req.default.evil.finish", "_INBOX.w.evil.a", `{`, frame...); err != nil {
			t.Fatal(err)
		}
		// The server's own answers go astray: a status, and a delivery.
		if err := e.pub("$JS.API.CONSUMER.MSG.NEXT.JOBS."+mine, target, `{"batch":1,"no_wait":true}`); err != nil {
			t.Fatal(err)
		}
		if err := e.pub("$JS.API.CONSUMER.MSG.NEXT.JOBS."+mine, target, `nonsense`); err != nil {
			t.Fatal(err)
		}
	}
	// Another pool's consumer has a name that it is not told and cannot guess.
	for _, name := range []string{"pool-gpu", "pool-gpu-" + strings.Repeat("0", 32), "*"} {
		inbox := "_INBOX.w.evil.b"
		sub, err := e.nc.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.JOBS."+name, inbox, []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		_ = e.settle()
		if m, err := sub.NextMsg(100 * time.Millisecond); err == nil && m.Header.Get("Status") == "" {
			t.Errorf("took %s from %s", m.Subject, name)
		}
		_ = sub.Unsubscribe()
	}
	who, err := identity.NewWorker("evil", "default", s.key.Token("evil", "default"))
	if err != nil {
		t.Fatal(err)
	}
	own := connect(t, jetstream.Config{URL: s.url, Worker: &who})
	for _, class := range []string{"gpu", "gpu?label.a=b", "default?nonsense"} {
		if _, err := own.Consumer(t.Context(), class); !errors.Is(err, job.ErrRefused) {
			t.Errorf("the consumer of %s: %v, want %v", class, err, job.ErrRefused)
		}
	}
	// What it says of itself in a message does not count.
	if _, err := own.Heartbeat(t.Context(), queue.HeartbeatRequest{Worker: queue.WorkerInfo{ID: "evil", Pool: "gpu"}}); err != nil {
		t.Fatal(err)
	}
	body := `{"worker":"victim","worker":{"id":"victim","pool":"gpu"}}`
	if err := e.pub("assay.req.default.evil.heartbeat", "_INBOX.w.evil.c", body, shown...); err != nil {
		t.Fatal(err)
	}
	_, _ = own.Claim(t.Context(), queue.ClaimRequest{Worker: "evil"}) // everything before it has been dealt with
	s.heard.mu.Lock()
	for _, spoken := range s.heard.spoke {
		if strings.Contains(spoken, "victim") || strings.Contains(spoken, "gpu") {
			t.Errorf("a dispatcher heard %q", spoken)
		}
	}
	s.heard.mu.Unlock()
	select {
	case l := <-canceled:
		t.Errorf("another worker was told to cancel %+v", l)
	default:
	}
	stream, err := s.admin.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	if st := stream.CachedInfo().State; st.Msgs != 6 || st.Consumers != 2 {
		t.Errorf("the stream has %d messages and %d consumers", st.Msgs, st.Consumers)
	}
}

// TestWhoIsLetIn: nobody comes in as somebody else.
func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	other, err := identity.ParseKey(identity.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	joined, err := identity.NewWorker("pod", "default", s.key.JoinToken("default"))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := identity.NewWorker("pod", "default", s.key.JoinToken("default"))
	if err != nil {
		t.Fatal(err)
	}
	nkey := func(w identity.Worker) nats.Option {
		public, err := w.Key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return nats.Nkey(public, w.Key.Sign)
	}
	_, dispatcher := s.key.Public()
	for name, c := range map[string]struct {
		o  []nats.Option
		ok bool
	}{
		"with its own token":             {nil, true},
		"with a token of the pool":       {[]nats.Option{nats.UserInfo("default."+joined.ID, joined.Token), nkey(joined)}, true},
		"as another, with its own":       {[]nats.Option{nats.UserInfo("default.victim", s.key.Token("evil", "default"))}, false},
		"in another pool, with its own":  {[]nats.Option{nats.UserInfo("gpu.evil", s.key.Token("evil", "default"))}, false},
		"as several":                     {[]nats.Option{nats.UserInfo("default.*", s.key.Token("evil", "default"))}, false},
		"without a token":                {[]nats.Option{nats.UserInfo("default.evil", "")}, false},
		"without a name":                 {[]nats.Option{nats.UserInfo("", "")}, false},
		"with a token of another fleet":  {[]nats.Option{nats.UserInfo("default.evil", other.Token("evil", "default"))}, false},
		"as another, with the pool's":    {[]nats.Option{nats.UserInfo("default.victim", joined.Token), nkey(joined)}, false},
		"as another that joined":         {[]nats.Option{nats.UserInfo("default."+joined.ID, joined.Token), nkey(foreign)}, false},
		"joined, and signed nothing":     {[]nats.Option{nats.UserInfo("default."+joined.ID, joined.Token)}, false},
		"as a dispatcher":                {[]nats.Option{nats.Nkey(dispatcher, other.Dispatcher().Sign)}, false},
		"as a dispatcher of another one": {[]nats.Option{nats.Nkey(dispatcher, s.key.Issuer().Sign)}, false},
		"after it was told to go":        {[]nats.Option{nats.UserInfo("default.expelled", s.key.Token("expelled", "default"))}, false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			e, err := s.dial(c.o...)
			if err == nil {
				e.nc.Close()
			}
			if (err == nil) != c.ok {
				t.Errorf("connect: %v", err)
			}
		})
	}
}

// TestSealed: who reads along, even with the rights of a dispatcher at the server, sees
// no spec, no secret and no code of a session.
func TestSealed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	nc, err := nats.Connect(s.url, nats.Nkey(publicOf(s.key), s.key.Dispatcher().Sign))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	tap, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	w := connectAs(t, s.server, s.key, "victim", "default", 0)
	heard := make(chan string, 2)
	if err := w.OnAssign(t.Context(), "victim", func(a queue.Assignment) error { heard <- string(a.Claimed.Spec); return nil }); err != nil {
		t.Fatal(err)
	}
	err = w.ServeSessions(t.Context(), "victim", func(_ context.Context, c queue.SessionCall) (queue.SessionReply, error) {
		heard <- c.Code
		return queue.SessionReply{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	big, err := json.Marshal(strings.Repeat(theSecret, 300_000)) // 9 MB: more than a message holds
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []json.RawMessage{json.RawMessage(`"` + theSecret + `"`), big} {
		a := queue.Assignment{Claimed: store.Claimed{Spec: spec}, Secrets: queue.Secrets{"A": theSecret}}
		if err := s.dispatcher.Assign(t.Context(), "victim", a); err != nil {
			t.Fatal(err)
		}
		if got := <-heard; got != string(spec) {
			t.Errorf("%d bytes arrived of %d", len(got), len(spec))
		}
	}
	if _, err := s.dispatcher.CallSession(t.Context(), "victim", queue.SessionCall{Op: queue.SessionOpen, Code: theSecret}); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != theSecret {
		t.Errorf("the session heard %q", got)
	}
	got, err := w.Claim(t.Context(), queue.ClaimRequest{Worker: "victim", Refs: []store.Ref{{Job: job.NewID(), Generation: 1}}})
	if err != nil || len(got.Claimed) != 1 || !strings.Contains(string(got.Claimed[0].Spec), theSecret) {
		t.Fatalf("claim: %+v, %v", got, err)
	}

	// A worker that has started anew under its name has another key.
	again := connectAs(t, s.server, s.key, "reborn", "default", 0)
	stop, end := context.WithCancel(t.Context())
	take := func(a queue.Assignment) error { return nil }
	if err := again.OnAssign(stop, "reborn", take); err != nil {
		t.Fatal(err)
	}
	if err := s.dispatcher.Assign(t.Context(), "reborn", queue.Assignment{}); err != nil {
		t.Fatal(err)
	}
	end()
	again.Close()
	again = connectAs(t, s.server, s.key, "reborn", "default", 0)
	if err := again.OnAssign(t.Context(), "reborn", take); err != nil {
		t.Fatal(err)
	}
	if err := s.dispatcher.Assign(t.Context(), "reborn", queue.Assignment{}); err != nil {
		t.Errorf("to a worker that has started anew: %v", err)
	}

	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	messages := 0
	for {
		m, err := tap.NextMsg(200 * time.Millisecond)
		if err != nil {
			break
		}
		messages++
		if bytes.Contains(m.Data, []byte(theSecret)) {
			t.Errorf("in clear on %s", m.Subject)
		}
	}
	if messages < 10 {
		t.Errorf("read %d messages along", messages)
	}
}

func publicOf(k *identity.Key) string {
	_, dispatcher := k.Public()
	return dispatcher
}

// TestAckOfAnother: workers of a pool take from one consumer, so one can say that
// another's delivery is done. It is then not made again by the server; the dispatcher,
// who knows that nobody has claimed the job, publishes it again, and it is delivered.
func TestAckOfAnother(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	d := store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: "default"}
	if err := s.dispatcher.Publish(t.Context(), []store.Dispatch{d}); err != nil {
		t.Fatal(err)
	}
	w := connectAs(t, s.server, s.key, "victim", "default", 0)
	c, err := w.Consumer(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	fetch := func() queue.Message {
		t.Helper()
		out := make(chan queue.Message, 1)
		if err := c.Fetch(t.Context(), 1, 10*time.Second, out); err != nil || len(out) != 1 {
			t.Fatalf("%d deliveries, %v", len(out), err)
		}
		return <-out
	}
	fetch()
	name := "pool-default-" + s.key.Name("consumer default")
	if err := s.evil.pub(fmt.Sprintf("$JS.ACK.JOBS.%s.1.1.1.%d.0", name, time.Now().UnixNano()), "", "+ACK"); err != nil {
		t.Fatal(err)
	}
	if err := s.dispatcher.Publish(t.Context(), []store.Dispatch{d}); err != nil { // as the reaper does
		t.Fatal(err)
	}
	if m := fetch(); m.Ref() != d.Ref {
		t.Errorf("delivered %v, want %v", m.Ref(), d.Ref)
	}
}
