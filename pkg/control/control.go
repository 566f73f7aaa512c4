// Package control defines the messages between dispatchers and workers, besides the deliveries of
// package queue: leases, heartbeats, records, cancels, assignments, environments, and requests to
// sessions.
//
// A message may be lost, doubled or late, and may be repeated safely; package store is the truth.
// queue/jetstream carries messages over NATS, sealed, and in pieces if they are long.
// queue/queuetest is its specification.
package control

import (
	"context"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// MaxRequest is the largest request of a worker, in bytes of Encode: a result of the largest
// allowed size, and its surrounding fields. A larger request is job.ErrTooLarge.
const MaxRequest = int(job.MaxResult) + 8<<20

// Client is a worker's connection to the dispatchers. It sends requests in bulk, far larger than
// one message, and any dispatcher replies. Unless documented otherwise, an error wraps
// job.ErrUnavailable: the effect of the request is unknown, and repeating it is safe. A ctx without
// a deadline gets a default timeout.
type Client interface {
	Claim(ctx context.Context, r ClaimRequest) (ClaimReply, error)
	Heartbeat(ctx context.Context, r HeartbeatRequest) (HeartbeatReply, error)
	Finish(ctx context.Context, r FinishRequest) (FinishReply, error)
	Release(ctx context.Context, r ReleaseRequest) (ReleaseReply, error)
	Environment(ctx context.Context, r EnvironmentRequest) (EnvironmentReply, error)
	// OnCancel calls f for each lease of this worker to cancel, one at a time, until ctx ends. It
	// returns once it is subscribed.
	OnCancel(ctx context.Context, worker string, f func(store.LeaseRef)) error
	// OnAssign calls f for each job that a dispatcher assigns to this worker, each in a goroutine
	// of its own, until ctx ends. It returns once it is subscribed. If f returns an error, the
	// worker does not take the job.
	OnAssign(ctx context.Context, worker string, f func(Assignment) error) error
	// OnClasses calls f with the classes of jobs (package placement) that the dispatchers send to
	// the workers of a pool. They repeat a class as long as it has jobs.
	OnClasses(ctx context.Context, pool string, f func(classes []string)) error
}

// Handler answers the workers' control messages; the dispatcher implements it. The server sets the
// sender of a message from its subject. A sender in the message itself never counts.
type Handler interface {
	HandleClaim(ctx context.Context, r ClaimRequest) (ClaimReply, error)
	HandleHeartbeat(ctx context.Context, r HeartbeatRequest) (HeartbeatReply, error)
	HandleFinish(ctx context.Context, r FinishRequest) (FinishReply, error)
	HandleRelease(ctx context.Context, r ReleaseRequest) (ReleaseReply, error)
	HandleEnvironment(ctx context.Context, r EnvironmentRequest) (EnvironmentReply, error)
}

// Server receives the workers' requests. Each request reaches one dispatcher.
type Server interface {
	// Serve calls h for every request, each in a goroutine of its own, until ctx ends. Then it
	// accepts no more and returns when all are answered. The contexts passed to h do not end with
	// ctx.
	Serve(ctx context.Context, h Handler) error
}

// Bus connects the dispatchers to workers, for cancels and classes, and to each other, for
// wake-ups. Messages are hints; losing one costs time, never a job.
type Bus interface {
	SendCancel(worker string, l store.LeaseRef) error
	// Assign assigns a job to a worker and returns when the worker has accepted it. After an error
	// the worker may still have accepted it, so the dispatcher has to revoke its lease.
	// job.ErrLost: there is no such worker.
	Assign(ctx context.Context, worker string, a Assignment) error
	// SendClasses sends classes to every worker of a pool.
	SendClasses(pool string, classes []string) error
	// Wake sends payload to every dispatcher that listens on the topic, including the sender. A
	// topic is one word.
	Wake(topic string, payload []byte) error
	// OnWake calls f for each payload on a topic, one at a time, until ctx ends. It returns once it
	// is subscribed.
	OnWake(ctx context.Context, topic string, f func(payload []byte)) error
	// OnWorkerEvent is OnWake for the messages of workers (SessionServer.Broadcast). It also passes the sender.
	OnWorkerEvent(ctx context.Context, topic string, f func(worker string, payload []byte)) error
}
