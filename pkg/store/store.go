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

// Store is the system of record, one part for each role. All methods are safe
// for concurrent use. Their errors wrap job.ErrInvalid, job.ErrNotFound,
// job.ErrConflict, job.ErrKeyUsed or job.ErrUnavailable where that is what happened. After
// job.ErrUnavailable a write may or may not have been made; saying the same
// again is safe for every method.
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
	Health

	Ping(ctx context.Context) error
	Close()
}

// Submitter accepts work. Everything it returns without an error is durable.
type Submitter interface {
	// SubmitBatch accepts all jobs or none, in one transaction. A non-empty
	// idempotency key that was seen before returns the first batch if the body
	// hash is the same, job.ErrKeyUsed if it is not.
	SubmitBatch(ctx context.Context, b NewBatch, jobs []NewJob) (job.ID, error)

	// OpenBatch, AppendJobs and SealBatch accept a batch too large for one
	// statement. Jobs of an open batch are invisible to the scheduler until it
	// is sealed; an open batch that is never sealed is dropped by Reap. A key
	// that names a sealed batch yields its id and existed; one that names a
	// batch still open (its submitter died or is being retried) replaces it:
	// the older submitter gets job.ErrConflict from then on.
	OpenBatch(ctx context.Context, b NewBatch) (id job.ID, existed bool, err error)
	AppendJobs(ctx context.Context, batch job.ID, jobs []NewJob) error
	// SealBatch makes the batch visible if exactly total jobs were appended,
	// else job.ErrConflict. Sealing twice is the same as once.
	SealBatch(ctx context.Context, batch job.ID, total int64) error
	// DropBatch removes an open batch. A sealed or unknown one is left alone.
	DropBatch(ctx context.Context, batch job.ID) error

	// KeepBatch prolongs the lease of a batch by its whole length and returns the
	// batch, job.ErrLost if it was abandoned. A batch without a lease, or one that is
	// done, is returned as it is.
	KeepBatch(ctx context.Context, tenant string, batch job.ID) (*job.Batch, error)

	// KeepBatches prolongs the leases of those of a tenant's batches that have one which is not
	// over, and returns how long they are.
	KeepBatches(ctx context.Context, tenant string, batches []job.ID) (map[job.ID]time.Duration, error)

	// SubmitJob accepts one job without a batch. With nothing queued ahead of it, in its
	// class and in the rivals, and fewer jobs of those dispatched than the window has room for (see
	// Schedule), it is dispatched in the same transaction and its Dispatch returned. If
	// the job names a worker, it runs already then, and the window does not matter,
	// unless it is 0: that only queues. It then runs as well past the jobs of one other tenant,
	// who has its share, if its own tenant has no other job.
	SubmitJob(ctx context.Context, j NewJob, key Idempotency, window int, rivals ...string) (job.ID, *Dispatch, error)

	// RetryBatch submits the jobs of a batch that did not succeed again, as the
	// new batch as, which names the old one: its id, tenant and idempotency
	// count, the rest is copied.
	// job.ErrConflict if the batch is not done or has nothing to retry.
	RetryBatch(ctx context.Context, batch job.ID, as NewBatch) (job.ID, error)
}

// Hints names what a scheduler in another process should look at.
type Hints struct {
	Queues   []Queue `json:"queues,omitempty"`   // that have new jobs
	Requeued bool    `json:"requeued,omitempty"` // jobs may run that could not before
	Settings bool    `json:"settings,omitempty"` // of tenants have changed
}

// Queue is the jobs of a tenant that wait in a class.
type Queue struct {
	Tenant int32  `json:"tenant"` // as the store numbers it
	Class  string `json:"class"`
}

// Scheduler moves work towards the workers and takes it back.
type Scheduler interface {
	// Schedule moves queued jobs of some classes (NewJob.Pool) to dispatched, best
	// first whichever they are of, until window jobs of them all are dispatched and not
	// claimed, and returns those it moved for publishing. Several callers at once share the window. Tenants
	// share by weight and batches of a tenant by priority, which waiting raises.
	Schedule(ctx context.Context, classes []string, window int) ([]Dispatch, error)

	// Hints returns what was queued through this store since the last call, and Hear takes over the
	// hints of another process. Schedule finds all of it without hints, too, but later when many tenants
	// have queued jobs. The process that schedules does not call Hints: Schedule uses its own.
	Hints() Hints
	Hear(Hints)

	// Waiting counts the jobs of a tenant that are not over: all of its batches', and
	// those on their own that are queued; and its batches that are not over. Open batches are
	// included in both. The empty tenant stands for all; of each tenant's class it counts 10,000 single jobs at most.
	Waiting(ctx context.Context, tenant string) (jobs, batches int64, err error)
	// Pools lists the classes that have queued jobs.
	Pools(ctx context.Context) ([]string, error)
	// PoolsOf lists the classes that have queued jobs of a tenant.
	PoolsOf(ctx context.Context, tenant string) ([]string, error)

	// Unclaimed returns up to n jobs that were last published longer ago than
	// olderThan and that no worker has claimed: they are to be published again
	// under the same generation. Being returned counts as published.
	Unclaimed(ctx context.Context, olderThan time.Duration, n int) ([]Dispatch, error)

	// Cancel requests the end of a job. Queued and dispatched jobs are terminal
	// at once; for a running one the worker and lease are returned.
	Cancel(ctx context.Context, id job.ID) (Canceling, error)
	// CancelBatch does the same to every job of a batch; it returns the running
	// ones only. Of a large batch it leaves jobs to be canceled by saying it again,
	// or by Reap: what runs should be told before what waits is all gone.
	CancelBatch(ctx context.Context, batch job.ID) ([]Canceling, error)
	// CancelMany does the same to every job of a tenant that is under way and to which
	// the query applies. Of very many it leaves some, to be canceled by saying it
	// again. job.ErrInvalid if the query names nothing.
	CancelMany(ctx context.Context, tenant string, q CancelQuery) (Canceled, error)

	// Prioritize gives every queued job of a tenant to which the query applies another
	// priority, and returns how many had another one before. What is dispatched or runs
	// keeps its place. job.ErrInvalid if the query names nothing.
	Prioritize(ctx context.Context, tenant string, q PriorityQuery) (int64, error)

	// ReapLeases takes back the leases that are over and those of workers that were started
	// anew, and gives up jobs that workers ended under. Reap does the rest: it takes back stale
	// dispatches, expires overdue jobs, completes interrupted cancels, abandons batches whose
	// leases are over, drops abandoned open batches and forgets old idempotency keys.
	//
	// Both make steps of about a second each, and leave what is left to the next call. Several
	// callers at once share the work. After an error the rest was done all the same, and counts.
	ReapLeases(ctx context.Context) (ReapStats, error)
	Reap(ctx context.Context) (ReapStats, error)

	// Orphans returns those of the leases that are over and that no record
	// names: what was stored under them is nobody's.
	Orphans(ctx context.Context, leases []LeaseRef) ([]LeaseRef, error)

	// Inputs returns what jobs that are not over name in their specs in the way of a blob
	// ("sha256:…"), by tenant: of the jobs that were submitted before a time, and of those
	// that are retried, which have their inputs from jobs of an earlier time.
	Inputs(ctx context.Context, before time.Time) ([]Input, error)

	// Fleet names this store: no other one has the same name.
	Fleet(ctx context.Context) (string, error)

	// Maintain prepares storage for the days ahead. It is to be called at start
	// and every few hours, by one at a time; nothing fails if it is not, reads only get
	// slower. It is job.ErrUnavailable as long as somebody reads all there is, as a backup
	// does: there are days to wait.
	Maintain(ctx context.Context) error

	// Forget removes history that has been over for longer than age: batches from their
	// ends on, sessions, and jobs with their records, in whole days (UTC). A day is kept
	// while one of its jobs, or a batch with jobs of it, is not over for so long. What is
	// removed is job.ErrGone for its readers. For the rest it is as Maintain. What could
	// not be removed now is in the error, and keeps nothing else.
	Forget(ctx context.Context, age time.Duration) (Forgotten, error)

	// Stats is what the scheduler and the gauges need to know.
	Stats(ctx context.Context) (Stats, error)
	// Queue is what waits and what runs, by class of jobs, tenant and priority: for
	// people, and bounded however much there is.
	Queue(ctx context.Context) ([]QueueGroup, error)
}

// Recorder is the workers' side, in bulk: one call carries the messages of many
// workers.
type Recorder interface {
	// Claim moves dispatched jobs of exactly the named generations to running,
	// each under a new lease that ends ttl from now by the store's clock. The
	// answer has one entry for each request, in order. A claim by the process
	// that already runs this very generation yields the same lease again:
	// unknown commits are retried by saying the same. Specs are given until they have
	// ClaimBytes together; a claim that succeeds and comes after that has a lease and no
	// spec, which the same claim sent again brings. A single claim always has its spec.
	Claim(ctx context.Context, ttl time.Duration, claims []Claim) ([]Claimed, error)

	// Heartbeat prolongs leases that are still current and held by the worker that
	// says so. It returns those that are not, and those whose cancel was requested.
	Heartbeat(ctx context.Context, ttl time.Duration, leases []Held) (lost, canceled []Held, err error)

	// Finish records results under their leases, each said by the worker that holds
	// it: whoever else names a lease is Fenced. The answer has one entry for
	// each finish, in order. A result that is already recorded under the same
	// lease is Recorded again: unknown commits are retried by saying the same.
	// A result that is not a JSON object is job.ErrInvalid, and none is recorded.
	Finish(ctx context.Context, fs []Finish) ([]FinishStatus, error)

	// Release hands running jobs back. Lost and infra reasons are charged to the
	// infrastructure budget, whose end is a record with the outcome lost; drain
	// and preemption are free. Leases that are no longer current, or another worker's,
	// are skipped.
	// What is charged is not scheduled again at once, but for the first lost lease.
	Release(ctx context.Context, rs []Release) error
	// RevokeAssignment takes a lease back that SubmitJob issued to a worker that never had
	// it, and reports whether it did: the job is queued, and nothing shows that it
	// was not all the time. A lease that is not current, and that of a job whose
	// cancel was requested, are left as they are. Lease 0 stands for the one that was
	// issued with the job, for who never heard the number.
	RevokeAssignment(ctx context.Context, l LeaseRef) (bool, error)
}

// Reader reads. A tenant sees its own rows only; the empty tenant sees all.
type Reader interface {
	Job(ctx context.Context, tenant string, id job.ID) (*job.Job, error)
	// Result returns the record of a terminal job as JSON of job.Result,
	// job.ErrNotFound until there is one, job.ErrGone when it is not kept any more.
	Result(ctx context.Context, tenant string, id job.ID) (json.RawMessage, error)
	// Batch takes the same time whatever the size of the batch.
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
	// BatchDone reports whether every job of a batch is in a terminal state. It is
	// what to ask again and again: a small part of what Batch costs.
	BatchDone(ctx context.Context, tenant string, id job.ID) (bool, error)
	// Progress says how far batches of any tenants are, for who asks on behalf of many
	// and again and again. What is not a sealed batch is left out.
	Progress(ctx context.Context, batches []job.ID) ([]Progress, error)
	// BatchesByID returns batches of any tenants as Batch does. What is not a sealed batch
	// is left out.
	BatchesByID(ctx context.Context, batches []job.ID) ([]job.Batch, error)
	// Batches lists sealed batches, those sealed last first, that were sealed before the
	// one named (zero: from the last): what is sealed later is before all that was listed,
	// however long it was open. job.ErrNotFound if there is none of that name.
	Batches(ctx context.Context, tenant string, before job.ID, limit int) ([]job.Batch, error)
	// Results returns up to limit results of a batch recorded after the cursor,
	// in the order they became visible, and the next cursor. A result that
	// commits later always lies after every cursor handed out before. A page ends before
	// its limit if its results have PageBytes together; it then has more than none.
	Results(ctx context.Context, tenant string, batch job.ID, after Cursor, limit int) ([]json.RawMessage, Cursor, error)
}

// Tenants keeps who may use how much.
type Tenants interface {
	// Tenant returns a tenant; one that was never put has the defaults.
	Tenant(ctx context.Context, name string) (Tenant, error)
	PutTenant(ctx context.Context, t Tenant) error
	// Grant puts a tenant as PutTenant does, if what is granted is as the condition says, and writes the action down.
	// It returns the tenant as it is then. job.ErrStale if the version is another, job.ErrConflict if the entry is one
	// that was applied already.
	Grant(ctx context.Context, a *Action, t Tenant, only GrantIf) (Tenant, error)
	Tenants(ctx context.Context) ([]Tenant, error)
}

// Registry is the list of workers, as their heartbeats report them. It is for
// people, gauges and windows; of the transitions, those of Reap look at it: a lost lease
// is held against its job only if the worker seems to have come to an end.
type Registry interface {
	// PutWorkers writes down what workers said. Of two processes of one name the one
	// that started last has it, from its first word on: Reap takes back what the other
	// held. That one is refused while the owner is heard of, and noted as its Rival.
	PutWorkers(ctx context.Context, ws []Worker) error
	// Quarantine keeps a worker from taking jobs for the given time, twice as long
	// for each time before that it followed soon, up to longest. It reports false
	// for a worker that is unknown or in quarantine already.
	Quarantine(ctx context.Context, worker, why string, first, longest time.Duration) (bool, error)
	// Spoken is the lowest version of the protocol (package queue) that a dispatcher
	// speaks which is connected to this store now. Those of releases that say none count
	// as 0.
	Spoken(ctx context.Context) (int, error)
	// Workers lists those seen within the given time, all if it is zero.
	Workers(ctx context.Context, seenWithin time.Duration) ([]Worker, error)
}
