// Package queue is delivery: it carries references to dispatched jobs to the workers. What
// workers and dispatchers say to each other besides is package control.
//
// A queue may lose, double and reorder; nothing here is the truth (package
// store is). queue/jetstream implements it over NATS JetStream;
// queue/queuetest is its specification.
package queue

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/store"
)

// Queue is all of it: one connection of one process.
type Queue interface {
	Publisher
	control.Client
	control.Server
	control.Bus
	// Consumer is where workers take the deliveries of a class of jobs from.
	Consumer(ctx context.Context, class string) (Consumer, error)
	// Ping says whether deliveries can be published and taken now.
	Ping(ctx context.Context) error
	// Close sends what is on its way and disconnects. Close last.
	Close()
}

// Publisher is the dispatcher's end of delivery.
type Publisher interface {
	// Publish makes every message durable or returns an error, in which case
	// any of them may have been published: publishing again is always safe,
	// a message that is already queued counts as published.
	Publish(ctx context.Context, ds []store.Dispatch) error
	// Sweep removes messages that are done and still there, which only a failure
	// of the queue leaves behind. It is for now and then.
	Sweep(ctx context.Context) error
}

// Consumer is the worker's end of delivery.
type Consumer interface {
	// Fetch asks for up to n messages, sends each to out as it arrives and returns
	// how many it has sent, whatever the error. That is nil when n have come, wait
	// has passed, ctx has ended or the connection was made anew: fetch again. Messages that arrive while ctx
	// ends are given back. out must have room or a reader. An error wraps
	// job.ErrUnavailable: fetch again after a pause. Several fetches may be
	// under way at once. With wait zero it takes only what is there.
	Fetch(ctx context.Context, n int, wait time.Duration, out chan<- Message) (sent int, err error)
}

// Message is one delivery. Exactly one of its methods ends it; none: it is
// delivered again after the queue's ack wait.
type Message interface {
	Ref() store.Ref
	TraceParent() string
	Ack() error                    // done: after the record is committed, or if the claim was refused
	Nak(delay time.Duration) error // give back
	InProgress() error             // still at it
}
