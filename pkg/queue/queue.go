// Package queue is delivery: it carries references to dispatched jobs to the
// workers, and the control messages between workers and dispatchers.
//
// A queue may lose, double and reorder; nothing here is the truth (package
// store is). queue/jetstream implements it over NATS JetStream;
// queue/queuetest is its specification.
package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// Queue is all of it: one connection of one process.
type Queue interface {
	Publisher
	Control
	Server
	Bus
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

// MaxRequest is the most that a worker may say in one request, in bytes of Encode: a
// result of the largest allowed size, and what goes with it. More is job.ErrTooLarge.
const MaxRequest = int(job.MaxResult) + 8<<20

// Control is a worker's line to the dispatchers: request and reply, in bulk, of
// sizes far above that of one message. Any dispatcher answers. An error wraps job.ErrUnavailable unless it
// says otherwise and means unknown; saying the same again is safe. Without a
// deadline of ctx's own a request is given up after a default timeout.
type Control interface {
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

// ClaimRequest asks for leases on deliveries.
type ClaimRequest struct {
	Worker string      `json:"worker"`
	Refs   []store.Ref `json:"refs"`
	// Since is which process of the worker's name asks; older ones do not say.
	Since store.Incarnation `json:"since,omitempty"`
	// Partial says that the worker asks again for those that come with a lease and no
	// spec, because the answer was large enough; older ones do not.
	Partial bool `json:"partial,omitempty"`
}

// ClaimReply has one entry for each ref, in order.
type ClaimReply struct {
	Claimed []store.Claimed `json:"claimed"`
	// Secrets are those of the claimed jobs whose policies name some. One that
	// does not exist any more is missing.
	Secrets map[job.ID]Secrets `json:"secrets,omitempty"`
	TTL     job.Duration       `json:"ttl"` // of the leases, counted from before the request was sent
	// Rest is set in place of all the others: nothing was claimed, the deliveries are
	// to be given back, and the worker shall take none for so long.
	Rest job.Duration `json:"rest,omitempty"`
	// Cordoned says that an operator wants the rest: it is about nothing that failed.
	Cordoned bool `json:"cordoned,omitempty"`
}

// Assignment is a job with a lease that its worker has not asked for. The worker
// cannot know when the lease was issued; but not before the dispatcher had heard a
// heartbeat that it names, and when that was sent the worker knows.
type Assignment struct {
	Claimed   store.Claimed `json:"claimed"`
	Secrets   Secrets       `json:"secrets,omitempty"`
	TTL       job.Duration  `json:"ttl"` // of the lease, counted from the heartbeat
	StartedAt time.Time     `json:"started_at"`
	Beat      int64         `json:"beat"` // WorkerInfo.Beat of that heartbeat
}

// HeartbeatRequest says that a worker lives, what it can do and what it holds.
type HeartbeatRequest struct {
	Worker WorkerInfo       `json:"worker"`
	Leases []store.LeaseRef `json:"leases"`
}

// HeartbeatReply names leases to drop and jobs to cancel.
type HeartbeatReply struct {
	Lost     []store.LeaseRef `json:"lost,omitempty"`
	Canceled []store.LeaseRef `json:"canceled,omitempty"`
	Rest     job.Duration     `json:"rest,omitempty"`     // the worker shall take no jobs for so long; 0: it may take some
	Cordoned bool             `json:"cordoned,omitempty"` // as in ClaimReply
	// Refused says that another process has the worker's name: this one shall take no
	// jobs, and what it runs is taken back.
	Refused string       `json:"refused,omitempty"`
	TTL     job.Duration `json:"ttl"` // of the leases that are not lost, counted from before the request was sent
	// Exclusive says that the worker's pool takes jobs that name it, and no others.
	Exclusive bool `json:"exclusive,omitempty"`
	// Protocol is the version that the worker shall speak: the lowest of the dispatchers.
	Protocol int `json:"protocol,omitempty"`
}

// WorkerInfo describes a worker to the fleet.
type WorkerInfo struct {
	ID        string      `json:"id"`
	Pool      string      `json:"pool"`
	Version   string      `json:"version"`
	Slots     int         `json:"slots"` // most jobs at once
	Busy      int         `json:"busy"`
	Draining  bool        `json:"draining"`
	StartedAt time.Time   `json:"started_at"`
	Host      policy.Host `json:"host"`
	Beat      int64       `json:"beat,omitempty"` // when the heartbeat was sent, in nanoseconds since StartedAt
	Held      string      `json:"held,omitempty"` // why it takes no jobs at the moment
	// Tally is what it has done; nil: it does not say.
	Tally *store.Tally `json:"tally,omitempty"`
	// Protocol is the highest version of the protocol that it speaks.
	Protocol int `json:"protocol,omitempty"`
	// Offer decides which jobs are dispatched for it.
	Offer placement.Offer `json:"offer"`
}

// FinishRequest records results.
type FinishRequest struct {
	Worker   string         `json:"worker"`
	Finishes []store.Finish `json:"finishes"`
	// Sizes are those of the results, in bytes, where they are behind the request: see Encode.
	Sizes []int `json:"sizes,omitempty"`
	// Omitted is how many bytes the only result has, if it was too large to be sent.
	Omitted int `json:"omitted,omitempty"`
}

// FinishReply has one status for each finish, in order. It is sent after the
// commit.
type FinishReply struct {
	Statuses []store.FinishStatus `json:"statuses"`
}

// ReleaseRequest hands attempts back.
type ReleaseRequest struct {
	Worker   string          `json:"worker"`
	Releases []store.Release `json:"releases"`
}

// ReleaseReply is empty: it says that the release is committed.
type ReleaseReply struct{}

// Encode and Decode are the one wire encoding of control messages: JSON. What
// may be megabytes and is nobody's business on the way is behind it, after a
// newline.
func Encode(v any) ([]byte, error) {
	var load []byte
	switch r := v.(type) {
	case SessionCall:
		load = r.Data
	case SessionReply:
		load = r.Data
	case FinishRequest:
		v, load = r.apart()
	}
	head, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return withLoad(head, load), nil
}

func withLoad(head, load []byte) []byte {
	if len(load) == 0 {
		return head
	}
	out := make([]byte, 0, len(head)+1+len(load))
	return append(append(append(out, head...), '\n'), load...)
}

// Decode reads what Encode wrote.
func Decode(b []byte, v any) error {
	switch v := v.(type) {
	case *SessionCall:
		b, v.Data, _ = bytes.Cut(b, []byte("\n"))
	case *SessionReply:
		b, v.Data, _ = bytes.Cut(b, []byte("\n"))
	case *FinishRequest:
		head, load, _ := bytes.Cut(b, []byte("\n"))
		if err := json.Unmarshal(head, v); err != nil {
			return err
		}
		return v.together(load)
	}
	return json.Unmarshal(b, v)
}

// apart returns r without its results, and them: inside of it each would be
// validated, copied and skipped once more at either end.
func (r FinishRequest) apart() (FinishRequest, []byte) {
	var load []byte
	r.Finishes = slices.Clone(r.Finishes)
	for i := range r.Finishes {
		f := &r.Finishes[i]
		r.Sizes = append(r.Sizes, len(f.Result))
		load = append(load, f.Result...)
		f.Result = nil
	}
	return r, load
}

// together gives r its results back. Workers that are older have sent them inside.
func (r *FinishRequest) together(load []byte) error {
	if r.Omitted > 0 && len(r.Finishes) == 1 {
		r.Finishes[0].Result = nil // it is null where it was
	}
	if len(r.Sizes) == 0 {
		return nil
	}
	if len(r.Sizes) != len(r.Finishes) {
		return fmt.Errorf("%d sizes for %d results", len(r.Sizes), len(r.Finishes))
	}
	for i, n := range r.Sizes {
		if n < 0 || n > len(load) {
			return fmt.Errorf("result %d has %d bytes, and %d are left", i, n, len(load))
		}
		result := load[:n:n]
		load = load[n:]
		if n == 0 {
			continue // the store says what it thinks of that
		}
		if !json.Valid(result) {
			return fmt.Errorf("result %d is not JSON", i)
		}
		r.Finishes[i].Result = result
	}
	if len(load) > 0 {
		return fmt.Errorf("%d bytes behind the last result", len(load))
	}
	r.Sizes = nil
	return nil
}
