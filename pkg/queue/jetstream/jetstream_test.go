package jetstream_test

import (
	"context"
	"log/slog"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/queue/queuetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestQueue(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(t *testing.T, ackWait time.Duration) queuetest.Backend {
		s := startServer(t)
		return queuetest.Backend{
			Connect: func(t *testing.T) queue.Queue {
				return connect(t, jetstream.Config{URL: s.url, AckWait: ackWait})
			},
			LoseAll: func(t *testing.T) {
				if err := s.admin(t).DeleteStream(t.Context(), "JOBS"); err != nil {
					t.Fatal(err)
				}
			},
			LoseConsumer: func(t *testing.T, pool string) {
				if err := s.admin(t).DeleteConsumer(t.Context(), "JOBS", "pool-"+pool); err != nil {
					t.Fatal(err)
				}
			},
			Restart: s.restart,
		}
	})
}

// server is a real nats-server that can be restarted on its port and data.
type server struct {
	url  string
	dir  string
	nats *dev.NATS
	with []func(*dev.NATSConfig)
}

func startServer(t *testing.T, with ...func(*dev.NATSConfig)) *server {
	t.Helper()
	testenv.Needs(t, "NATS")
	s := &server{with: with, dir: t.TempDir(), url: "nats://" + testenv.Address(t)}
	s.start(t)
	t.Cleanup(func() { s.nats.Stop() })
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	cfg := dev.NATSConfig{Dir: s.dir, Port: port}
	for _, f := range s.with {
		f(&cfg)
	}
	s.nats = testenv.RestartNATS(t, cfg)
}

func (s *server) restart(t *testing.T) {
	t.Helper()
	s.nats.Stop()
	s.start(t)
}

// admin is a connection with full rights.
func (s *server) admin(t *testing.T) natsjs.JetStream {
	t.Helper()
	return s.adminAs(t, nil)
}

// adminAs has the key of the fleet.
func (s *server) adminAs(t *testing.T, key *identity.Key) natsjs.JetStream {
	t.Helper()
	var o []nats.Option
	if key != nil {
		_, dispatcher := key.Public()
		o = append(o, nats.Nkey(dispatcher, key.Dispatcher().Sign))
	}
	nc, err := nats.Connect(s.url, o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func connect(t *testing.T, cfg jetstream.Config) *jetstream.Queue {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, err := jetstream.Connect(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}
