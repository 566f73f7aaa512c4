// Package queue delivers references to dispatched jobs to the workers. Package control has the
// other messages between workers and dispatchers.
//
// A queue may lose, duplicate and reorder messages; package store is the source of truth.
// queue/jetstream implements it with NATS JetStream; queue/queuetest is its specification.
package queue

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/store"
)

// Queue is one connection of one process with all of its methods.
type Queue interface {
	Publisher
	control.Client
	control.Server
	control.Bus
	// Consumer returns the source of deliveries of a class of jobs, for workers.
	Consumer(ctx context.Context, class string) (Consumer, error)
	// Ping checks that deliveries can be published and fetched now.
	Ping(ctx context.Context) error
	// Close sends pending data and disconnects. No other call may follow.
	Close()
}

// Publisher is the dispatcher's end of delivery.
type Publisher interface {
	// Publish makes every message durable or returns an error, after which any of them may have been
	// published. A retry is always safe: a message that is already queued counts as published.
	Publish(ctx context.Context, ds []store.Dispatch) error
	// Sweep removes acknowledged messages that still exist, which only a failure of the queue leaves
	// behind. Call it occasionally.
	Sweep(ctx context.Context) error
}

// Consumer is the worker's end of delivery.
type Consumer interface {
	// Fetch requests up to n messages and sends each to out as it arrives. With wait zero it takes
	// only available messages. out must have room or a reader. Several fetches may run at once.
	//
	// It returns the number of messages sent, even with an error. The error is nil when n arrived,
	// wait passed, ctx ended or the connection was renewed: fetch again. Messages that arrive while
	// ctx ends are returned to the queue. An error wraps job.ErrUnavailable: fetch again after a
	// pause.
	Fetch(ctx context.Context, n int, wait time.Duration, out chan<- Message) (sent int, err error)
}

// Message is one delivery. Call exactly one of its methods to end it. Without a call it is
// redelivered after the queue's ack wait.
type Message interface {
	Ref() store.Ref
	TraceParent() string
	Ack() error                    // done: after the record is committed, or after the claim was rejected
	Nak(delay time.Duration) error // return to the queue
	InProgress() error             // still in progress
}
