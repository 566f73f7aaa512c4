// Package control is what dispatchers and workers say to each other beside the deliveries
// of package queue: leases, heartbeats, records, cancels, assignments, environments, and what
// is asked of sessions.
//
// Whatever is said may be lost, doubled or late, and is safe to say again; package store is
// the truth. queue/jetstream carries it over NATS, sealed and in pieces where it is long;
// queue/queuetest is its specification.
package control

import (
	"context"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// MaxRequest is the most that a worker may say in one request, in bytes of Encode: a
// result of the largest allowed size, and what goes with it. More is job.ErrTooLarge.
const MaxRequest = int(job.MaxResult) + 8<<20

// Client is a worker's line to the dispatchers: request and reply, in bulk, of
// sizes far above that of one message. Any dispatcher answers. An error wraps job.ErrUnavailable unless it
// says otherwise and means unknown; saying the same again is safe. Without a
// deadline of ctx's own a request is given up after a default timeout.
type Client interface {
	Claim(ctx context.Context, r ClaimRequest) (ClaimReply, error)
	Heartbeat(ctx context.Context, r HeartbeatRequest) (HeartbeatReply, error)
	Finish(ctx context.Context, r FinishRequest) (FinishReply, error)
	Release(ctx context.Context, r ReleaseRequest) (ReleaseReply, error)
	Environment(ctx context.Context, r EnvironmentRequest) (EnvironmentReply, error)
	// OnCancel calls f for each lease of this worker that is to be canceled. It
	// returns once that is in force; f is called, one at a time, until ctx ends.
	OnCancel(ctx context.Context, worker string, f func(store.LeaseRef)) error
	// OnAssign calls f for each job that a dispatcher hands to this worker, each in
	// a goroutine of its own, until ctx ends. It returns once that is in force. An
	// error of f says that the worker does not take the job.
	OnAssign(ctx context.Context, worker string, f func(Assignment) error) error
	// OnClasses calls f with the classes of jobs (package placement) that the dispatchers
	// name to the workers of a pool, which they do again and again as long as there are some.
	OnClasses(ctx context.Context, pool string, f func(classes []string)) error
}

// Handler answers the workers' control messages; the dispatcher implements it. Who a
// message is from is known by the way it came, and written into it: what the message
// itself says about that never counts.
type Handler interface {
	HandleClaim(ctx context.Context, r ClaimRequest) (ClaimReply, error)
	HandleHeartbeat(ctx context.Context, r HeartbeatRequest) (HeartbeatReply, error)
	HandleFinish(ctx context.Context, r FinishRequest) (FinishReply, error)
	HandleRelease(ctx context.Context, r ReleaseRequest) (ReleaseReply, error)
	HandleEnvironment(ctx context.Context, r EnvironmentRequest) (EnvironmentReply, error)
}

// Server is where the dispatchers answer: each request reaches one of them.
type Server interface {
	// Serve calls h for every request, each in a goroutine of its own, until
	// ctx ends; it then takes no more and returns when all are answered. The
	// contexts that h sees do not end with ctx.
	Serve(ctx context.Context, h Handler) error
}

// Bus is the dispatchers' own line: cancels and classes to workers, wake-ups among
// dispatchers. Messages are hints; losing one costs time, never a job.
type Bus interface {
	SendCancel(worker string, l store.LeaseRef) error
	// Assign hands a job to a worker and returns when the worker has taken it.
	// After an error it may have: its lease has to be taken back. job.ErrLost:
	// there is no such worker.
	Assign(ctx context.Context, worker string, a Assignment) error
	// SendClasses names classes to every worker of a pool.
	SendClasses(pool string, classes []string) error
	// Wake tells every dispatcher that listens on the topic, the sender too.
	// A topic is one word.
	Wake(topic string, payload []byte) error
	// OnWake returns once it listens; f is called, one at a time, until ctx
	// ends.
	OnWake(ctx context.Context, topic string, f func(payload []byte)) error
	// OnTold is OnWake for what workers tell (SessionServer.Tell), and says which one did.
	OnTold(ctx context.Context, topic string, f func(worker string, payload []byte)) error
}
