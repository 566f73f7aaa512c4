package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/pkg/placement"
)

// maxWaiting limits waiting pull requests at one consumer: several for each worker of a large
// fleet. It cannot be changed after the consumer exists.
const maxWaiting = 1 << 16

// idleClass is how long the server keeps an unused consumer of a class, whose pool may no longer
// exist. The deliveries stay in the stream.
const idleClass = time.Hour

// recreatePause lets a deletion finish. The server frees a stream's name before it removes the
// directory. A stream recreated in between loses its files, and then stores nothing and sends no
// responses.
const recreatePause = 500 * time.Millisecond

// recreate creates a missing stream.
func (q *Queue) recreate(ctx context.Context) error {
	q.seen.forget()
	if err := pause(ctx, recreatePause); err != nil {
		return err
	}
	return q.ensureStream(ctx)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxAge is how long the stream keeps undelivered messages.
const maxAge = 24 * time.Hour

// ensureStream creates the stream or updates its configuration.
func (q *Queue) ensureStream(ctx context.Context) error {
	q.ensureMu.Lock()
	defer q.ensureMu.Unlock()
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	cfg := jetstream.StreamConfig{
		Name:        streamName,
		Description: "dispatched jobs; rebuilt from the database if lost",
		Subjects:    []string{streamSubject},
		Retention:   jetstream.WorkQueuePolicy,
		Storage:     jetstream.FileStorage,
		Replicas:    q.cfg.Replicas,
		// Old messages are for classes or pools that no longer exist. If a job still exists, it is
		// published again.
		MaxAge: maxAge,
		// One message per subject, with later ones rejected: publishing is idempotent while the message
		// is queued.
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		AllowAtomicPublish:   true,
	}
	err := retryRequest(ctx, func(ctx context.Context) (err error) {
		if cfg.Replicas, err = q.replicas(ctx); err != nil {
			return err
		}
		_, err = q.js.CreateOrUpdateStream(ctx, cfg)
		return err
	})
	if err != nil {
		return unavailable("make stream "+streamName, err)
	}
	return nil
}

// replicas returns how many replicas the stream is to have: those of the configuration, or those
// that it has if they are more. So dispatchers with different settings agree on the highest, and
// do not change the stream back and forth at each start.
func (q *Queue) replicas(ctx context.Context) (int, error) {
	s, err := q.js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return q.cfg.Replicas, nil
	}
	if err != nil {
		return 0, err
	}
	has := s.CachedInfo().Config.Replicas
	if has > max(q.cfg.Replicas, 1) {
		slog.WarnContext(ctx, "stream has more replicas than configured; lower them with the nats command",
			"stream", streamName, "replicas", has, "configured", q.cfg.Replicas)
	}
	return max(has, q.cfg.Replicas), nil
}

// ensureConsumer creates the consumer of a class, and the stream if necessary.
func (q *Queue) ensureConsumer(ctx context.Context, class string) error {
	err := q.makeConsumer(ctx, class)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := q.recreate(ctx); err != nil {
			return err
		}
		err = q.makeConsumer(ctx, class)
	}
	if err != nil {
		return unavailable("make the consumer of class "+strconv.Quote(class), err)
	}
	q.seen.note(class)
	return nil
}

func (q *Queue) makeConsumer(ctx context.Context, class string) error {
	q.ensureMu.Lock()
	defer q.ensureMu.Unlock()
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	idle := idleClass
	if class == placement.Any {
		idle = 0
	}
	cfg := jetstream.ConsumerConfig{
		InactiveThreshold: idle,
		Durable:           q.consumerName(class),
		FilterSubject:     classSubjects(class),
		AckPolicy:         jetstream.AckExplicitPolicy,
		AckWait:           q.cfg.AckWait,
		// The store counts attempts. A work-queue message that reached MaxDeliver would stay in the
		// stream, invisible.
		MaxDeliver:    -1,
		MaxAckPending: -1, // the scheduler's window limits jobs in progress
		MaxWaiting:    maxWaiting,
	}
	return retryRequest(ctx, func(ctx context.Context) error {
		_, err := q.js.CreateOrUpdateConsumer(ctx, streamName, cfg)
		return err
	})
}

// retryRequest repeats a request until there is a response or ctx ends. While a cluster elects its leader,
// including at start, it responds 503 or not at all. So a single request could wait for ever.
func retryRequest(ctx context.Context, do func(context.Context) error) error {
	for patience := attemptTimeout; ; patience = min(2*patience, 4*attemptTimeout) {
		once, cancel := context.WithTimeout(ctx, patience)
		err := do(once)
		cancel()
		var refused *jetstream.APIError
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.Is(err, context.DeadlineExceeded):
		case errors.As(err, &refused) && refused.Code == 503:
			if pause(ctx, reconnectWait) != nil {
				return err
			}
		default:
			return err
		}
	}
}
