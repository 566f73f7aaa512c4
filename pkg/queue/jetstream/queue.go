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
)

// Config holds the server's address and timeouts. Only URL is required.
type Config struct {
	URL      string
	Name     string        // of this process, shown by the server
	AckWait  time.Duration // time without an acknowledgement before a redelivery; default 30s
	Replicas int           // of the stream; default 1
	Timeout  time.Duration // of one request without a deadline; default 10s
	// RemakeAfter is how long a stream with one replica may store nothing before it is recreated.
	// Default 2m; negative: never. See judge.
	RemakeAfter time.Duration
	Log         *slog.Logger // default slog.Default()
	Files       Files        // certificates and credentials for the server; see Files.Check

	// Worker is the identity of a worker. Nil: this is a dispatcher. A worker with a token may only
	// do what workers do.
	Worker *identity.Worker
	// Key lets a dispatcher authenticate workers at a server with auth_callout (see package
	// identity). Nil: every client may connect, and its claimed name is trusted.
	Key *identity.Key
	// Exclusive reports whether a pool's workers run only jobs that name it. Nil: no pool is
	// exclusive.
	Exclusive func(pool string) bool
	// Refused lists workers to reject despite valid credentials.
	Refused []string
}

const (
	defaultAckWait = 30 * time.Second
	defaultTimeout = 10 * time.Second
	defaultRemake  = 2 * time.Minute
	reconnectWait  = 200 * time.Millisecond
	// reconnectJitter spreads the reconnects of a fleet after a server restart.
	reconnectJitter = 800 * time.Millisecond
	pingInterval    = 10 * time.Second // after two without a response the connection is dead
	closeTimeout    = 2 * time.Second
)

// Queue is one connection to NATS. All methods are safe for concurrent use.
type Queue struct {
	cfg Config
	nc  *nats.Conn
	js  jetstream.JetStream
	log *slog.Logger

	desk     *desk     // receives workers' responses; nil in workers
	relaying *server   // relays workers' requests to JetStream; nil in workers
	seen     sightings // recently seen consumers
	placed   placed    // deliveries in the stream
	receipts *receipts // of a worker

	own      *sealer             // opens messages sealed to this process
	seals    *workerKeys         // the workers' keys
	frames   *semaphore.Weighted // bytes of framed requests in progress
	messages *semaphore.Weighted // bytes of other requests in progress
	offered  sync.Map            // workers whose key is offered on this connection

	ensureMu sync.Mutex // serializes the creation of streams and consumers
	silence  silence    // of the stream

	epochMu sync.Mutex
	epoch   chan struct{} // closed at each disconnect and reconnect
}

var _ queue.Queue = (*Queue)(nil)

// Connect returns a Queue after it is connected and the stream exists. It tries until ctx ends; the
// error wraps job.ErrUnavailable. It reconnects automatically later.
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
	q := &Queue{cfg: cfg, log: cfg.Log, epoch: make(chan struct{}), frames: semaphore.NewWeighted(framesRoom), messages: semaphore.NewWeighted(messagesRoom), own: newSealer(), seals: newWorkerKeys()}
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
		// While disconnected, a publish fails at once. A buffered one could arrive after its sender has
		// retried.
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

// dispatch starts the tasks of a dispatcher's connection.
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

// connectionChange returns a channel that is closed at the next disconnect or reconnect.
func (q *Queue) connectionChange() <-chan struct{} {
	q.epochMu.Lock()
	defer q.epochMu.Unlock()
	return q.epoch
}

// Ping checks that the stream responds or, for a worker, the server.
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

// Close sends buffered data and disconnects.
func (q *Queue) Close() {
	q.receipts.flush()
	if q.relaying != nil && q.nc.IsConnected() {
		q.relaying.stop() // requests in progress are completed
	}
	if err := q.nc.FlushTimeout(closeTimeout); err != nil && !q.nc.IsClosed() {
		q.log.Warn("nats flush at close", "error", err)
	}
	q.nc.Close()
}

// deadline adds the default timeout to ctx unless it has a deadline.
func (q *Queue) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, q.cfg.Timeout)
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, job.ErrUnavailable, err)
}
