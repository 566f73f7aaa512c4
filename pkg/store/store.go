// Package store is the system of record: batches, jobs, attempts, results.
//
// Postgres is the truth; JetStream is delivery that can be rebuilt from it. Each method is one transition of the
// lifecycle, guarded by the state, generation or lease that the caller expects, so a late or repeated call changes
// nothing. store/postgres implements it; store/storetest is its specification.
package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Store is the system of record, one part for each role. All methods are safe for concurrent use. Their errors wrap
// job.ErrInvalid, job.ErrNotFound, job.ErrConflict, job.ErrKeyUsed or job.ErrUnavailable as applicable. After
// job.ErrUnavailable a write may have been made; every method can be repeated safely.
type Store interface {
	Submitter
	Uploads
	Scheduler
	Recorder
	Reader
	Browser
	Policies
	Secrets
	Tenants
	Registry
	Leaders
	Operations
	Steering
	Eraser
	Asides
	Sessions
	Callbacks
	ResultCache
	Environments
	Keys
	Transfers
	Health

	Ping(ctx context.Context) error
	Close()
}

// Submitter accepts work. Work that it accepts without an error is durable.
type Submitter interface {
	// SubmitBatch accepts all jobs or none, in one transaction. If a non-empty idempotency key was used before, it
	// returns the first batch for the same body hash and job.ErrKeyUsed for another.
	SubmitBatch(ctx context.Context, b NewBatch, jobs []NewJob) (job.ID, error)

	// OpenBatch, AppendJobs and SealBatch accept a batch too large for one statement. The scheduler does not see jobs
	// of an open batch. Reap drops an open batch that is never sealed. If the key names a sealed batch, OpenBatch
	// returns its id and existed. If the key names an open batch (its submitter died or is retrying), the new batch
	// replaces it, and the older submitter gets job.ErrConflict from then on.
	OpenBatch(ctx context.Context, b NewBatch) (id job.ID, existed bool, err error)
	AppendJobs(ctx context.Context, batch job.ID, jobs []NewJob) error
	// SealBatch makes the batch visible if exactly total jobs were appended, else it returns job.ErrConflict. Sealing
	// again changes nothing.
	SealBatch(ctx context.Context, batch job.ID, total int64) error
	// DropBatch removes an open batch. It ignores sealed and unknown batches.
	DropBatch(ctx context.Context, batch job.ID) error

	// KeepBatch renews the lease of a batch by its whole length and returns the batch, or job.ErrLost if it was
	// abandoned. It returns a batch without a lease, or a batch that is done, unchanged.
	KeepBatch(ctx context.Context, tenant string, batch job.ID) (*job.Batch, error)

	// KeepBatches renews the current leases of a tenant's batches and returns their lengths.
	KeepBatches(ctx context.Context, tenant string, batches []job.ID) (map[job.ID]time.Duration, error)

	// SubmitJob accepts one job without a batch. It dispatches the job in the same transaction, and returns its
	// Dispatch, if no job is queued before it in its class or the rivals, and fewer of their jobs are dispatched than
	// window (see Schedule). A job that names a worker starts to run at once, regardless of the window; but window 0 only
	// queues it. Such a job also passes the jobs of one other tenant that has its share, if its own tenant has no other
	// job.
	SubmitJob(ctx context.Context, j NewJob, key Idempotency, window int, rivals ...string) (job.ID, *Dispatch, error)

	// RetryBatch submits the unsuccessful jobs of a batch again, as a new batch. It takes the id, tenant and
	// idempotency key from as and copies the rest. It returns job.ErrConflict if the batch is not done or has nothing
	// to retry.
	RetryBatch(ctx context.Context, batch job.ID, as NewBatch) (job.ID, error)
}

// Hints lists changes that a scheduler in another process should look at.
type Hints struct {
	Queues   []Queue `json:"queues,omitempty"`   // queues with new jobs
	Requeued bool    `json:"requeued,omitempty"` // jobs may run that could not before
	Settings bool    `json:"settings,omitempty"` // settings of tenants have changed
}

// Queue is the waiting jobs of one tenant and class.
type Queue struct {
	Tenant int32  `json:"tenant"` // the store's number of it
	Class  string `json:"class"`
}

// Scheduler dispatches work to the workers and takes it back.
type Scheduler interface {
	// Schedule dispatches queued jobs of some classes (NewJob.Pool), best first regardless of class, until window jobs
	// of these classes are dispatched and unclaimed. It returns the jobs to publish. Concurrent callers share the
	// window. Tenants share by weight; batches of a tenant by priority, which waiting raises.
	Schedule(ctx context.Context, classes []string, window int) ([]Dispatch, error)

	// Hints returns what was queued through this store since the last call; AddHints takes the hints of another process.
	// Without hints Schedule finds the same jobs, but later if many tenants have queued jobs. The scheduling process
	// does not call Hints: Schedule uses its own.
	Hints() Hints
	AddHints(Hints)

	// Waiting counts the unfinished work of a tenant: all jobs of its batches, its queued single jobs, and its batches.
	// Open batches are included. The empty tenant stands for all. It counts at most 10,000 single jobs for each class
	// of a tenant.
	Waiting(ctx context.Context, tenant string) (jobs, batches int64, err error)
	// Pools lists the classes that have queued jobs.
	Pools(ctx context.Context) ([]string, error)
	// PoolsOf lists the classes that have queued jobs of a tenant.
	PoolsOf(ctx context.Context, tenant string) ([]string, error)

	// Unclaimed returns up to n unclaimed jobs that were last published longer ago than olderThan, to publish again
	// under the same generation. It counts them as published.
	Unclaimed(ctx context.Context, olderThan time.Duration, n int) ([]Dispatch, error)

	// Cancel requests the end of a job. It ends queued and dispatched jobs at once; for a running job it returns the
	// worker and lease.
	Cancel(ctx context.Context, id job.ID) (Canceling, error)
	// CancelBatch cancels every job of a batch and returns the running ones. It does not cancel all waiting jobs of a
	// large batch, so that workers learn early about the running ones; repeat it, or leave the rest to Reap.
	CancelBatch(ctx context.Context, batch job.ID) ([]Canceling, error)
	// CancelMany cancels a tenant's unfinished jobs that match the query. It may leave some of very many; repeat it for
	// these. It returns job.ErrInvalid if the query is empty.
	CancelMany(ctx context.Context, tenant string, q CancelQuery) (Canceled, error)

	// Prioritize sets the priority of a tenant's queued jobs that match the query, and returns the number of changed
	// jobs. Dispatched and running jobs keep their place. It returns job.ErrInvalid if the query is empty.
	Prioritize(ctx context.Context, tenant string, q PriorityQuery) (int64, error)

	// ReapLeases takes back leases that expired or belong to restarted workers, and gives up jobs under which workers
	// ended. Reap does the rest: it takes back stale dispatches, expires overdue jobs, completes interrupted cancels,
	// abandons batches with expired leases, drops abandoned open batches and deletes old idempotency keys.
	//
	// Each call works for about a second a step and leaves the rest to the next call. Concurrent callers share the
	// work. After an error the other steps have run, and their counts are valid.
	ReapLeases(ctx context.Context) (ReapStats, error)
	Reap(ctx context.Context) (ReapStats, error)

	// Orphans returns the given leases that have expired and that no record names. Objects stored under them have no
	// owner.
	Orphans(ctx context.Context, leases []LeaseRef) ([]LeaseRef, error)

	// Inputs returns, by tenant, the blobs ("sha256:…") in the specs of unfinished jobs: jobs that were submitted
	// before a time, and retried jobs, whose inputs come from older jobs.
	Inputs(ctx context.Context, before time.Time) ([]Input, error)

	// Fleet returns the unique name of this store.
	Fleet(ctx context.Context) (string, error)

	// Maintain prepares storage for the days ahead. Call it at start and every few hours, from one process at a time;
	// without it reads only get slower. It returns job.ErrUnavailable while another session reads the whole database,
	// such as a backup, and days wait to be made.
	Maintain(ctx context.Context) error

	// Forget removes history that has been over for longer than age: batches by their ends, sessions, and jobs with
	// their records, in whole days (UTC). It keeps a day until all its jobs, and all batches with jobs of it, have been
	// over for that long. Readers of removed history get job.ErrGone. It returns job.ErrUnavailable as Maintain does.
	// The error lists the parts that could not be removed now; it still removes the others.
	Forget(ctx context.Context, age time.Duration) (Forgotten, error)

	// Stats returns the figures for the scheduler and the gauges.
	Stats(ctx context.Context) (Stats, error)
	// Queue returns the waiting and running work by class, tenant and priority. It is for people, and bounded.
	Queue(ctx context.Context) ([]QueueGroup, error)
}

// Recorder is the workers' side, in bulk: one call carries the messages of many workers.
type Recorder interface {
	// Claim moves dispatched jobs of exactly the given generations to running, each under a new lease that ends ttl
	// from now by the store's clock. The answer has one entry for each request, in order. A repeated claim by the
	// process that runs this generation returns the same lease, so a caller may retry after an unknown commit. Specs
	// are limited to ClaimBytes together; a later successful claim gets a lease and no spec, and returns its spec when
	// it is sent again. A single claim always has its spec.
	Claim(ctx context.Context, ttl time.Duration, claims []Claim) ([]Claimed, error)

	// Heartbeat renews leases that are current and held by the sending worker. It returns the others, and the leases
	// with a requested cancel.
	Heartbeat(ctx context.Context, ttl time.Duration, leases []Held) (lost, canceled []Held, err error)

	// Finish records results under their leases. A lease of another worker is Fenced. The answer has one entry for each
	// finish, in order. A result already recorded under the same lease is Recorded again, so a caller may retry after
	// an unknown commit. It returns job.ErrInvalid, and records none, if a result is not a JSON object.
	Finish(ctx context.Context, fs []Finish) ([]FinishStatus, error)

	// Release returns running jobs to the queue. Lost and infra reasons are charged to the infrastructure budget; when
	// it is used up, a record with the outcome lost ends the job. Drain and preemption are free. It skips leases that
	// are not current or belong to another worker. A charged job waits before it is scheduled again, except after its
	// first lost lease.
	Release(ctx context.Context, rs []Release) error
	// RevokeAssignment takes back a lease that SubmitJob issued to a worker that never received it, and reports whether
	// it did. The job is queued as if it had always been. It ignores leases that are not current and jobs with a
	// requested cancel. Lease 0 stands for the lease that was issued with the job, for callers that never received its
	// number.
	RevokeAssignment(ctx context.Context, l LeaseRef) (bool, error)
}

// Reader reads. A tenant sees its own rows only; the empty tenant sees all.
type Reader interface {
	Job(ctx context.Context, tenant string, id job.ID) (*job.Job, error)
	// Result returns the record of a terminal job as JSON of job.Result. It returns job.ErrNotFound until there is a
	// record and job.ErrGone after retention removed it.
	Result(ctx context.Context, tenant string, id job.ID) (json.RawMessage, error)
	// Batch takes the same time regardless of the size of the batch.
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
	// BatchDone reports whether every job of a batch is terminal. Poll this rather than Batch: it costs a small part.
	BatchDone(ctx context.Context, tenant string, id job.ID) (bool, error)
	// Progress returns the progress of batches of any tenants, for a caller that polls for many clients. It omits ids
	// that are not sealed batches.
	Progress(ctx context.Context, batches []job.ID) ([]Progress, error)
	// BatchesByID returns batches of any tenants as Batch does. It omits ids that are not sealed batches.
	BatchesByID(ctx context.Context, batches []job.ID) ([]job.Batch, error)
	// Batches lists sealed batches, the last sealed first, that were sealed before the named batch (zero: from the
	// last). A batch that is sealed later precedes all listed ones, however long it was open. It returns
	// job.ErrNotFound if the named batch does not exist.
	Batches(ctx context.Context, tenant string, before job.ID, limit int) ([]job.Batch, error)
	// Results returns up to limit results of a batch recorded after the cursor, in the order in which they became
	// visible, and the next cursor. A result that commits later always lies after every cursor returned before. A page
	// may end before its limit at PageBytes; it then has at least one result.
	Results(ctx context.Context, tenant string, batch job.ID, after Cursor, limit int) ([]json.RawMessage, Cursor, error)
}

// Tenants stores the limits of tenants.
type Tenants interface {
	// Tenant returns a tenant, with the defaults if it was never stored.
	Tenant(ctx context.Context, name string) (Tenant, error)
	PutTenant(ctx context.Context, t Tenant) error
	// Grant stores a tenant as PutTenant does if the condition holds, records the action, and returns the tenant. It
	// returns job.ErrStale if the version differs and job.ErrConflict if the entry was applied already.
	Grant(ctx context.Context, a *Action, t Tenant, only GrantIf) (Tenant, error)
	// IsApplied reports whether an entry of a file is the last one that was applied to a tenant.
	IsApplied(ctx context.Context, tenant, entry string) (bool, error)
	Tenants(ctx context.Context) ([]Tenant, error)
}

// Registry is the list of workers, from their heartbeats. It serves people, gauges and windows. Of the transitions only
// Reap reads it: a lost lease is charged to its job only if its worker seems to have ended.
type Registry interface {
	// PutWorkers stores the reports of workers. If two processes use one name, the one that started last owns it from
	// its first report, and Reap takes back the leases of the other. The other is refused, and noted as a Rival, while
	// the owner reports.
	PutWorkers(ctx context.Context, ws []Worker) error
	// Quarantine keeps a worker from taking jobs for the time first, doubled for each earlier quarantine shortly
	// before, up to longest. It reports false for a worker that is unknown or already in quarantine.
	Quarantine(ctx context.Context, worker, why string, first, longest time.Duration) (bool, error)
	// Spoken returns the lowest protocol version (package queue) of the dispatchers connected to this store. Releases
	// that report no version count as 0.
	Spoken(ctx context.Context) (int, error)
	// Workers lists the workers seen within the given time, or all if it is zero.
	Workers(ctx context.Context, seenWithin time.Duration) ([]Worker, error)
}
