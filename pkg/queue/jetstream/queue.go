package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream/seal"
)

// Config says where the server is and how patient to be. Only URL is required.
type Config struct {
	URL      string
	Name     string        // of this process, for people who look at the server
	AckWait  time.Duration // silence after which a delivery is made again; default 30s
	Replicas int           // of the stream; default 1
	Timeout  time.Duration // of one request, if the caller sets none; default 10s
	// RemakeAfter is for how long a stream of one replica must have stored nothing that
	// it was sent until it is made anew; default 2m, negative: never. See judge.
	RemakeAfter time.Duration
	Log         *slog.Logger // default slog.Default()
	Files       Files        // certificates and credentials at the server; see Files.Check

	// Worker is who a worker is; nil: this is a dispatcher. One that comes with a token
	// may do at the server what a worker does, and nothing else.
	Worker *identity.Worker
	// Key makes a dispatcher let workers in, at a server that asks it who may (see
	// package identity); nil: whoever reaches the server is let in, and believed to be
	// who it says.
	Key *identity.Key
	// Exclusive says of a pool that its workers get jobs that name it, and no others; nil:
	// of none.
	Exclusive func(pool string) bool
	// Refused are workers that are not let in, whatever they come with.
	Refused []string
}

const (
	defaultAckWait = 30 * time.Second
	defaultTimeout = 10 * time.Second
	defaultRemake  = 2 * time.Minute
	reconnectWait  = 200 * time.Millisecond
	// reconnectJitter spreads the reconnects of a fleet whose server restarted.
	reconnectJitter = 800 * time.Millisecond
	pingInterval    = 10 * time.Second // two unanswered: the connection is dead
	closeTimeout    = 2 * time.Second
)

// Queue is one connection to NATS. All methods are safe for concurrent use.
type Queue struct {
	cfg Config
	nc  *nats.Conn
	js  jetstream.JetStream
	log *slog.Logger

	desk     *desk     // where workers answer; nil for one of those
	relaying *server   // passes on what workers say to JetStream; nil likewise
	seen     sightings // consumers that were there
	placed   placed    // deliveries that are in the stream
	receipts *receipts // of a worker

	own      *seal.Sealer        // opens what is sealed to this process
	seals    *seal.Keys          // the keys of workers
	frames   *semaphore.Weighted // bytes of requests that are being worked on, those that came as frames
	messages *semaphore.Weighted // and the others
	offered  sync.Map            // workers whose key is offered on this connection

	ensureMu sync.Mutex // one stream or consumer is made at a time
	silence  silence    // of the stream

	epochMu sync.Mutex
	epoch   chan struct{} // closed when the connection is lost or made anew
}

var _ queue.Queue = (*Queue)(nil)

// Connect returns a Queue once it is connected and the stream exists. It tries
// until ctx ends; the error wraps job.ErrUnavailable. Later disconnects heal by
// themselves.
func Connect(ctx context.Context, cfg Config) (*Queue, error) {
	if cfg.AckWait == 0 {
		cfg.AckWait = defaultAckWait
	}
	if cfg.Replicas == 0 {
		cfg.Replicas = 1
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.RemakeAfter == 0 {
		cfg.RemakeAfter = defaultRemake
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	q := &Queue{cfg: cfg, log: cfg.Log, epoch: make(chan struct{}), frames: semaphore.NewWeighted(framesRoom), messages: semaphore.NewWeighted(messagesRoom), own: seal.New(), seals: seal.NewKeys()}
	q.receipts = newReceipts(q.sayReceipts)
	for try := 0; ; try++ {
		err := q.connect(ctx)
		if err == nil {
			return q, nil
		}
		if try == 0 {
			q.log.WarnContext(ctx, "waiting for nats", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to nats: %w: %w", job.ErrUnavailable, err)
		case <-time.After(reconnectWait):
		}
	}
}

// connect tries once.
func (q *Queue) connect(ctx context.Context) error {
	who, err := q.credentials()
	if err != nil {
		return err
	}
	nc, err := nats.Connect(q.cfg.URL, append(who,
		nats.Name(q.cfg.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		// While disconnected a publish fails at once. Buffered, it would arrive
		// after its sender has given up and said it again.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			q.nextEpoch()
			if err != nil {
				q.log.Warn("nats disconnected", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			q.nextEpoch()
			q.log.Info("nats reconnected", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			q.log.Warn("nats error", "subject", subject, "error", err)
		}),
	)...)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return err
	}
	q.nc, q.js = nc, js
	if q.cfg.Worker != nil {
		err = q.offerKey(ctx, q.cfg.Worker.ID)
	} else {
		err = q.dispatch(ctx)
	}
	if err != nil {
		nc.Close()
	}
	return err
}

// dispatch does what every dispatcher's connection does.
func (q *Queue) dispatch(ctx context.Context) (err error) {
	if err := q.ensureStream(ctx); err != nil {
		return err
	}
	if q.desk, err = openDesk(q.nc); err != nil {
		return unavailable("listen for answers", err)
	}
	if err := q.relay(ctx); err != nil {
		return err
	}
	if err := q.admit(); err != nil {
		return err
	}
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	return q.nc.FlushWithContext(ctx)
}

func (q *Queue) nextEpoch() {
	q.seen.forget()
	q.epochMu.Lock()
	defer q.epochMu.Unlock()
	close(q.epoch)
	q.epoch = make(chan struct{})
}

// connectionChange returns a channel that is closed at the next disconnect or
// reconnect.
func (q *Queue) connectionChange() <-chan struct{} {
	q.epochMu.Lock()
	defer q.epochMu.Unlock()
	return q.epoch
}

// Ping says whether the stream answers, or, to a worker, the server.
func (q *Queue) Ping(ctx context.Context) error {
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	if q.cfg.Worker != nil {
		if err := q.nc.FlushWithContext(ctx); err != nil {
			return unavailable("ping", err)
		}
		return nil
	}
	if _, err := q.js.Stream(ctx, streamName); err != nil {
		return unavailable("ping stream", err)
	}
	return nil
}

// Close sends what is buffered and disconnects.
func (q *Queue) Close() {
	q.receipts.flush()
	if q.relaying != nil && q.nc.IsConnected() {
		q.relaying.stop() // what was taken is passed on
	}
	if err := q.nc.FlushTimeout(closeTimeout); err != nil && !q.nc.IsClosed() {
		q.log.Warn("nats flush at close", "error", err)
	}
	q.nc.Close()
}

// deadline gives ctx the default timeout unless it has a deadline of its own.
func (q *Queue) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, q.cfg.Timeout)
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, job.ErrUnavailable, err)
}
