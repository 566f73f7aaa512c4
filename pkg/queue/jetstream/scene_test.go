package jetstream_test

import (
	"context"
	"encoding/json"
	"flag"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// With these flags TestForbidden runs against a deployed server, with the token of one of its workers. Its
// attacks would end the fleet's queue if the server allowed them.
var (
	natsURL     = flag.String("nats.url", "", "a deployed server, for TestForbidden")
	workerToken = flag.String("worker.token", "", "an ASSAY_WORKER_TOKEN that it knows")
	workerName  = flag.String("worker.name", "evil", "the worker's name")
	workerPool  = flag.String("worker.pool", "default", "the worker's pool")
)

// large is the generation of jobs whose specs are.
const large = 99

const theSecret = "the spec and the secret of a job"

// scene is a fleet with a worker whose credentials are stolen.
type scene struct {
	*server
	key        *identity.Key
	dispatcher *jetstream.Queue
	admin      natsjs.JetStream
	heard      *witness
	evil       *evil
}

// witness is a dispatcher's handler that records the sender of each message.
type witness struct {
	mu    sync.Mutex
	spoke []string // kind, worker
}

func (w *witness) note(kind, worker string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spoke = append(w.spoke, kind+" "+worker)
}

func (w *witness) HandleClaim(_ context.Context, r control.ClaimRequest) (reply control.ClaimReply, _ error) {
	w.note("claim", r.Worker)
	for _, ref := range r.Refs {
		spec, _ := json.Marshal(theSecret)
		if ref.Generation == large {
			spec, _ = json.Marshal(strings.Repeat(theSecret, 300_000)) // 9 MB: more than a message holds
		}
		reply.Claimed = append(reply.Claimed, store.Claimed{Ref: ref, Lease: 1, Spec: spec})
	}
	return reply, nil
}

func (w *witness) HandleHeartbeat(_ context.Context, r control.HeartbeatRequest) (control.HeartbeatReply, error) {
	w.note("heartbeat", r.Worker.ID+" "+r.Worker.Pool)
	return control.HeartbeatReply{}, nil
}

func (w *witness) HandleFinish(_ context.Context, r control.FinishRequest) (control.FinishReply, error) {
	w.note("finish", r.Worker)
	return control.FinishReply{}, nil
}

func (w *witness) HandleRelease(_ context.Context, r control.ReleaseRequest) (control.ReleaseReply, error) {
	w.note("release", r.Worker)
	return control.ReleaseReply{}, nil
}

func (w *witness) HandleEnvironment(_ context.Context, r control.EnvironmentRequest) (control.EnvironmentReply, error) {
	w.note("environment", strings.Join([]string{r.Worker, r.Pool, r.Witness}, " "))
	return control.EnvironmentReply{}, nil
}

// evil is a client with the credentials of one worker, and none of our code.
type evil struct {
	nc       *nats.Conn
	errs     chan error
	me, pool string
}

// fill writes its names into a subject or body.
func (e *evil) fill(text string) string {
	return strings.NewReplacer("{me}", e.me, "{pool}", e.pool).Replace(text)
}

// dialAs connects as a worker.
func dialAs(url string, w identity.Worker, o ...nats.Option) (*evil, error) {
	e := &evil{errs: make(chan error, 1000), me: w.ID, pool: w.Pool}
	if w.Key != nil {
		public, err := w.Key.PublicKey()
		if err != nil {
			return nil, err
		}
		o = append(o, nats.Nkey(public, w.Key.Sign))
	}
	nc, err := nats.Connect(url, append([]nats.Option{
		nats.UserInfo(w.Pool+"."+w.ID, w.Token), nats.CustomInboxPrefix("_INBOX.w." + w.ID), nats.Timeout(10 * time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { e.errs <- err }),
	}, o...)...)
	e.nc = nc
	return e, err
}

// dial connects as worker "evil" of pool "default".
func (s *scene) dial(o ...nats.Option) (*evil, error) {
	return dialAs(s.url, identity.Worker{ID: "evil", Pool: "default", Token: s.key.Token("evil", "default")}, o...)
}

// deployed connects to the server that the flags name.
func deployed(t *testing.T) *evil {
	t.Helper()
	w, err := identity.NewWorker(*workerName, *workerPool, *workerToken)
	if err != nil {
		t.Fatal(err)
	}
	e, err := dialAs(*natsURL, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.nc.Close)
	return e
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
		if err := testenv.Receive(t, "the end of serving", served); err != nil {
			t.Error(err)
		}
	})
	e, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.nc.Close)
	s.evil = e
	for _, pool := range []string{"default", "gpu"} {
		if _, err := s.dispatcher.Consumer(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		s.publish(t, pool, 3)
	}
	return s
}

// publish publishes deliveries to a pool.
func (s *scene) publish(t *testing.T, pool string, n int) (ds []store.Dispatch) {
	t.Helper()
	for range n {
		ds = append(ds, store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: pool})
	}
	if err := s.dispatcher.Publish(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	return ds
}

// consumer returns the name of a pool's consumer.
func (s *scene) consumer(pool string) string {
	return "pool-" + pool + "-" + s.key.Name("consumer "+pool)
}

// refusal waits for the server to refuse the last action.
func (e *evil) refusal() error {
	if err := e.nc.FlushTimeout(30 * time.Second); err != nil {
		return err
	}
	select {
	case err := <-e.errs:
		return err
	case <-time.After(5 * time.Second): // errors come before the answer to the flush; the handler is a goroutine
		return nil
	}
}

func (e *evil) pub(subject, reply, body string, header ...string) error {
	m := &nats.Msg{Subject: e.fill(subject), Reply: e.fill(reply), Data: []byte(e.fill(body)), Header: nats.Header{}}
	for i := 0; i < len(header); i += 2 {
		m.Header[header[i]] = []string{e.fill(header[i+1])}
	}
	return e.nc.PublishMsg(m)
}

// untouched checks that the stream and its consumers are unchanged, except for deliveries taken from the
// consumer of the worker's own pool.
func (s *scene) untouched(t *testing.T, messages uint64, taken int) {
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
	for pool, taken := range map[string]int{"gpu": 0, "default": taken} {
		c, err := stream.Consumer(t.Context(), s.consumer(pool))
		if err != nil {
			t.Fatal(err)
		}
		if i := c.CachedInfo(); i.NumAckPending != taken || i.NumRedelivered != 0 || i.Paused {
			t.Errorf("the consumer of pool %s: %+v", pool, i)
		}
	}
}

func publicOf(k *identity.Key) string {
	_, dispatcher := k.Public()
	return dispatcher
}
