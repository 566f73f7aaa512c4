// Package store is the system of record: batches, jobs, attempts, results.
//
// Postgres is the truth and JetStream is delivery that can be rebuilt from it.
// Every method is one transition of the lifecycle, guarded by what the caller
// believes (state, generation, lease), so that a late or doubled call changes
// nothing. store/postgres implements it; store/storetest is its specification.
package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Store is the system of record. All methods are safe for concurrent use. Their
// errors wrap job.ErrNotFound, job.ErrConflict, job.ErrUnavailable where that
// is what happened.
type Store interface {
	// SubmitBatch accepts all jobs or none, in one transaction. A non-empty
	// idempotency key that was seen before returns the first batch if the body
	// hash is the same, job.ErrConflict if it is not.
	SubmitBatch(ctx context.Context, b NewBatch, jobs []NewJob) (job.ID, error)

	// OpenBatch, AppendJobs and SealBatch accept a batch too large for one
	// statement. Jobs of an open batch are invisible to the scheduler until it
	// is sealed; an open batch that is never sealed is dropped by Reap. A key
	// that names a sealed batch yields its id and existed; one that names a
	// batch still open (its submitter died or is being retried) replaces it.
	OpenBatch(ctx context.Context, b NewBatch) (id job.ID, existed bool, err error)
	AppendJobs(ctx context.Context, batch job.ID, jobs []NewJob) error
	SealBatch(ctx context.Context, batch job.ID, total int64) error
	DropBatch(ctx context.Context, batch job.ID) error

	// SubmitJob accepts one job without a batch. With dispatch set and nothing
	// queued ahead of it, it is dispatched in the same transaction and its
	// Dispatch returned.
	SubmitJob(ctx context.Context, j NewJob, key Idempotency, dispatch bool) (job.ID, *Dispatch, error)

	// Schedule moves up to n queued jobs to dispatched, best first, and returns
	// them for publishing.
	Schedule(ctx context.Context, n int) ([]Dispatch, error)

	// Unclaimed returns jobs dispatched before the cut-off that no worker has
	// claimed: they are published again under the same generation.
	Unclaimed(ctx context.Context, olderThan time.Duration, n int) ([]Dispatch, error)

	// Claim moves dispatched jobs of exactly the named generations to running,
	// each under a new lease that ends ttl from now by the store's clock. The
	// answer has one entry for each request, in order. A claim by the worker
	// that already runs this very generation yields the same lease again:
	// unknown commits are retried by saying the same.
	Claim(ctx context.Context, ttl time.Duration, claims []Claim) ([]Claimed, error)

	// Heartbeat prolongs leases that are still current. It returns those that
	// are not, and those whose cancel was requested.
	Heartbeat(ctx context.Context, ttl time.Duration, leases []LeaseRef) (lost, canceled []LeaseRef, err error)

	// Finish records results under their leases. The answer has one entry for
	// each finish, in order. A result that is already recorded under the same
	// lease is Recorded again: unknown commits are retried by saying the same.
	Finish(ctx context.Context, fs []Finish) ([]FinishStatus, error)

	// Release hands running jobs back (drain, our failures), charged to the
	// infrastructure budget. Leases that are no longer current are skipped.
	Release(ctx context.Context, rs []Release) error

	// Cancel requests the end of a job. Queued and dispatched jobs are terminal
	// at once; for a running one the worker and lease are returned.
	Cancel(ctx context.Context, id job.ID) (Canceling, error)
	// CancelBatch does the same to every job of a batch.
	CancelBatch(ctx context.Context, batch job.ID) ([]Canceling, error)

	// RetryBatch submits the jobs of a batch that did not succeed again, as the
	// new batch as: its id, tenant and idempotency count, the rest is copied.
	RetryBatch(ctx context.Context, batch job.ID, as NewBatch) (job.ID, error)

	// Reap takes back expired leases, expires overdue jobs and drops abandoned
	// open batches. It returns how many rows it changed.
	Reap(ctx context.Context) (ReapStats, error)

	// Job, Result, Batch and Results read. Results returns up to limit results
	// of a batch recorded after the cursor, in the order they became visible,
	// and the next cursor.
	Job(ctx context.Context, tenant string, id job.ID) (*job.Job, error)
	Result(ctx context.Context, tenant string, id job.ID) (json.RawMessage, error)
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
	Batches(ctx context.Context, tenant string, before job.ID, limit int) ([]job.Batch, error)
	Results(ctx context.Context, tenant string, batch job.ID, after Cursor, limit int) ([]json.RawMessage, Cursor, error)

	// Stats is what the scheduler and the gauges need to know.
	Stats(ctx context.Context) (Stats, error)

	Ping(ctx context.Context) error
	Close()
}

// Cursor is a position in a batch's results; zero is the beginning.
type Cursor int64

// Idempotency names a request so that it can be said twice.
type Idempotency struct {
	Key  string // empty: none
	Hash string // sha256 of the body
}

// NewBatch is a batch to accept.
type NewBatch struct {
	ID          job.ID
	Tenant      string
	Name        string
	Labels      map[string]string
	Idempotency Idempotency
	TraceParent string // W3C trace context of the submit
	Total       int64  // unused by OpenBatch
}

// NewJob is a job to accept. Spec has been validated and its policy resolved.
type NewJob struct {
	ID          job.ID
	Tenant      string
	Pool        string // which workers may run it
	Priority    int
	MaxAttempts int
	ExpiresIn   time.Duration // 0: never
	Spec        []byte        // JSON of job.Spec
	TraceParent string
}

// Ref names one delivery: a job and the generation it was published under.
type Ref struct {
	Job        job.ID         `json:"job"`
	Generation job.Generation `json:"gen"`
}

// Claim asks for the lease of one delivery. Claims of many workers share one
// call, so each names its own.
type Claim struct {
	Ref
	Worker string
}

// Dispatch is a job to publish.
type Dispatch struct {
	Ref
	Pool        string
	TraceParent string
}

// Claimed answers one claim. Lease is zero if the claim was refused: the
// delivery is stale and must be dropped.
type Claimed struct {
	Ref
	Lease       job.Lease       `json:"lease,omitempty"`
	Tenant      string          `json:"tenant,omitempty"`
	BatchID     job.ID          `json:"batch_id,omitempty"`
	Spec        json.RawMessage `json:"spec,omitempty"`
	TraceParent string          `json:"traceparent,omitempty"`
	QueuedMS    float64         `json:"queued_ms,omitempty"`
}

// LeaseRef names a lease that a worker believes it holds.
type LeaseRef struct {
	Job   job.ID    `json:"job"`
	Lease job.Lease `json:"lease"`
}

// Finish is the end of one attempt.
type Finish struct {
	LeaseRef
	BatchID job.ID          `json:"batch_id,omitempty"` // as claimed: a hint for those who wait for the batch
	Outcome job.Outcome     `json:"outcome"`
	Result  json.RawMessage `json:"result"` // JSON of job.Result
}

// FinishStatus is what became of a Finish.
type FinishStatus string

// The statuses. After any of them the delivery can be acknowledged.
const (
	Recorded FinishStatus = "recorded" // this result is the record
	Retried  FinishStatus = "retried"  // kept as an attempt, the job runs again
	Fenced   FinishStatus = "fenced"   // the lease was lost: discard, collect its artifacts
)

// Release hands one attempt back.
type Release struct {
	LeaseRef
	Reason  job.Reason `json:"reason"`
	Message string     `json:"message,omitempty"`
}

// Canceling is what became of a cancel request.
type Canceling struct {
	LeaseRef
	Worker string    // who runs it, if State is running
	State  job.State // after the request
}

// ReapStats counts what a reap changed.
type ReapStats struct {
	LeasesExpired, JobsExpired, JobsLost, BatchesDropped int64
}

// Stats is a summary of the live rows.
type Stats struct {
	Queued, Dispatched, Running int64
	OldestQueued                time.Duration
}
