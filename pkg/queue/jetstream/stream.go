package jetstream

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/pkg/placement"
)

// maxWaiting is how many pull requests may wait at one consumer: several from
// each worker of a large fleet. It cannot be changed once the consumer exists.
const maxWaiting = 1 << 16

// idleClass is how long the consumer of a class of jobs is kept that nobody asks: its
// pool may be gone for good. Deliveries outlive it: they are the stream's.
const idleClass = time.Hour

// recreatePause lets a deletion come to its end. The server frees the name of a
// stream before it removes the directory: a stream that is made again in between
// loses its files, and from then on stores and answers nothing.
const recreatePause = 500 * time.Millisecond

// recreate makes a stream that was found missing.
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

// maxAge is how long messages are kept that nobody takes.
const maxAge = 24 * time.Hour

// ensureStream makes the stream, or makes it what it should be.
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
		// What nobody takes is of a class or a pool that has gone. If its job has not, it
		// is published again.
		MaxAge: maxAge,
		// One message per subject, the second one refused: publishing is
		// idempotent while the message is queued.
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		AllowAtomicPublish:   true,
	}
	err := again(ctx, func(ctx context.Context) error {
		_, err := q.js.CreateOrUpdateStream(ctx, cfg)
		return err
	})
	if err != nil {
		return unavailable("make stream "+streamName, err)
	}
	return nil
}

// ensureConsumer makes the consumer of a class, and the stream if need be.
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
		// Attempts are counted in the store. A work-queue message that reached
		// MaxDeliver would stay in the stream, invisible.
		MaxDeliver:    -1,
		MaxAckPending: -1, // the scheduler's window bounds what is under way
		MaxWaiting:    maxWaiting,
	}
	return again(ctx, func(ctx context.Context) error {
		_, err := q.js.CreateOrUpdateConsumer(ctx, streamName, cfg)
		return err
	})
}

// again says a request to make something until it is answered, or ctx ends. While a
// cluster elects its leader, which is at every start of one, it answers 503 or, as
// nobody listens, not at all: who waited for that answer would wait for ever.
func again(ctx context.Context, do func(context.Context) error) error {
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
