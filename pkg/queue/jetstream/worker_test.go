package jetstream_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/queue/queuetest"
	"github.com/assay-run/assay/pkg/store"
)

// guarded is a server that knows its workers.
func guarded(t *testing.T) (*server, *identity.Key) {
	t.Helper()
	key, err := identity.ParseKey(identity.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return startServer(t, func(c *dev.NATSConfig) { c.Key = key }), key
}

// connectAs connects as a worker with a token of its own.
func connectAs(t *testing.T, s *server, key *identity.Key, name, pool string, ackWait time.Duration) *jetstream.Queue {
	t.Helper()
	w, err := identity.NewWorker(name, pool, key.Token(name, pool))
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, jetstream.Config{URL: s.url, Worker: &w, AckWait: ackWait})
}

// TestWorkersLife checks that a worker can do all its work with its permissions. It runs the suite of the
// queue over connections that the server has tied to one worker.
func TestWorkersLife(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(t *testing.T, ackWait time.Duration) queuetest.Backend {
		s, key := guarded(t)
		return queuetest.Backend{
			Connect: func(t *testing.T) queue.Queue {
				d := connect(t, jetstream.Config{URL: s.url, Key: key, AckWait: ackWait})
				return &split{Queue: d, t: t, as: func(name, pool string) *jetstream.Queue { return connectAs(t, s, key, name, pool, ackWait) }}
			},
			LoseAll: func(t *testing.T) {
				if err := s.adminAs(t, key).DeleteStream(t.Context(), "JOBS"); err != nil {
					t.Fatal(err)
				}
			},
			LoseConsumer: func(t *testing.T, pool string) {
				err := s.adminAs(t, key).DeleteConsumer(t.Context(), "JOBS", "pool-"+pool+"-"+key.Name("consumer "+pool))
				if err != nil && !errors.Is(err, natsjs.ErrConsumerNotFound) { // which the first pull has made
					t.Fatal(err)
				}
			},
			Restart: s.restart,
		}
	})
}

// split is a dispatcher's connection, and one for each worker that it is asked to be.
type split struct {
	*jetstream.Queue
	t  *testing.T
	as func(name, pool string) *jetstream.Queue

	mu      sync.Mutex
	workers map[string]*jetstream.Queue
}

func (s *split) worker(name, pool string) *jetstream.Queue {
	if name == "" {
		name = "w1"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := name + "\x00" + pool
	if s.workers[key] == nil {
		if s.workers == nil {
			s.workers = map[string]*jetstream.Queue{}
		}
		s.workers[key] = s.as(name, pool)
	}
	return s.workers[key]
}

func (s *split) Consumer(ctx context.Context, pool string) (queue.Consumer, error) {
	return s.worker("w1", placement.ParseClass(pool).Pool).Consumer(ctx, pool)
}

func (s *split) Claim(ctx context.Context, r control.ClaimRequest) (control.ClaimReply, error) {
	w := s.worker(r.Worker, "default")
	if r.Worker == "" {
		r.Worker = "w1"
	}
	return w.Claim(ctx, r)
}

func (s *split) Environment(ctx context.Context, r control.EnvironmentRequest) (control.EnvironmentReply, error) {
	w := s.worker(r.Worker, "default")
	if r.Worker == "" {
		r.Worker = "w1"
	}
	return w.Environment(ctx, r)
}

func (s *split) Heartbeat(ctx context.Context, r control.HeartbeatRequest) (control.HeartbeatReply, error) {
	return s.worker(r.Worker.ID, "default").Heartbeat(ctx, r)
}

func (s *split) Finish(ctx context.Context, r control.FinishRequest) (control.FinishReply, error) {
	w := s.worker(r.Worker, "default")
	if r.Worker == "" {
		r.Worker = "w1"
	}
	return w.Finish(ctx, r)
}

func (s *split) Release(ctx context.Context, r control.ReleaseRequest) (control.ReleaseReply, error) {
	w := s.worker(r.Worker, "default")
	if r.Worker == "" {
		r.Worker = "w1"
	}
	return w.Release(ctx, r)
}

func (s *split) OnCancel(ctx context.Context, worker string, f func(store.LeaseRef)) error {
	return s.worker(worker, "default").OnCancel(ctx, worker, f)
}

func (s *split) OnAssign(ctx context.Context, worker string, f func(control.Assignment) error) error {
	return s.worker(worker, "default").OnAssign(ctx, worker, f)
}

func (s *split) OnClasses(ctx context.Context, pool string, f func([]string)) error {
	return s.worker("w1", pool).OnClasses(ctx, pool, f)
}

func (s *split) ServeSessions(ctx context.Context, worker string, h func(context.Context, control.SessionCall) (control.SessionReply, error)) error {
	return s.worker(worker, "default").ServeSessions(ctx, worker, h)
}

func (s *split) Tell(worker, topic string, payload []byte) error {
	return s.worker(worker, "default").Broadcast(worker, topic, payload)
}
