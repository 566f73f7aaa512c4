package store

import (
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

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
	// Trace returns the trace context of a job that RetryBatch makes; nil: TraceParent.
	Trace     func(id job.ID, pool string) string
	Total     int64         // unused by OpenBatch
	Lease     time.Duration // without a KeepBatch for so long it is canceled; 0: never
	Callback  *job.Callback // optional
	LabelCaps job.LabelCaps
}

// NewJob is a job to accept. Spec has been validated and its policy resolved.
type NewJob struct {
	ID          job.ID
	Tenant      string
	Pool        string // its class: which workers may run it (package placement)
	Priority    int
	MaxAttempts int           // the user's own budget; 0 counts as 1
	RetryOn     []job.Outcome // outcomes worth another of MaxAttempts
	ExpiresIn   time.Duration // 0: never
	Caps        []Cap         // what of it its tenant or batch caps
	Spec        []byte        // JSON of job.Spec
	TraceParent string
	// CacheKey is the same for jobs that may be answered with each other's records;
	// nil: it may not.
	CacheKey []byte
	// Worker is to run it at once, under a lease of LeaseTTL that it has not asked
	// for, if it may be dispatched at once; empty: whoever claims it. For SubmitJob.
	Worker   string
	Since    Incarnation // which process of that name
	LeaseTTL time.Duration
}

// Progress is how far a batch is. Results are numbered as they are recorded, so a cursor
// of Recorded or more has seen all there is.
type Progress struct {
	Batch    job.ID
	Tenant   string
	Recorded Cursor
	Done     bool
}

// Ref names one delivery: a job and the generation it was published under.
type Ref struct {
	Job        job.ID         `json:"job"`
	Generation job.Generation `json:"gen"`
}

// Incarnation tells the processes apart that have had a worker's name: it is when one
// of them started, by its own clock, in microseconds since 1970. 0: it did not say.
type Incarnation int64

// IncarnationOf is that of a process that started at t; of the zero time it is 0.
func IncarnationOf(t time.Time) Incarnation {
	if t.IsZero() {
		return 0
	}
	return Incarnation(t.UnixMicro())
}

// Time is when the process started.
func (i Incarnation) Time() time.Time { return time.UnixMicro(int64(i)) }

// Claim asks for the lease of one delivery. Claims of many workers share one
// call, so each names its own.
type Claim struct {
	Ref
	Worker string
	Since  Incarnation
}

// Dispatch is a job to publish.
type Dispatch struct {
	Ref
	Cacheable   bool      // has a cache key: see ResultCache
	Lease       job.Lease // of the worker that it was submitted for; 0: it is to be claimed
	Pool        string
	TraceParent string
	BatchID     job.ID // known only if it has a TraceParent
	Tenant      string // the same
}

// Claimed answers one claim. Lease is zero if the claim was refused: the
// delivery is stale and must be dropped, or given back if it may be claimed later.
type Claimed struct {
	Ref
	Lease       job.Lease       `json:"lease,omitempty"`
	Later       bool            `json:"later,omitempty"`
	Tenant      string          `json:"tenant,omitempty"`
	BatchID     job.ID          `json:"batch_id,omitempty"`
	Spec        json.RawMessage `json:"spec,omitempty"` // none beside a lease: see Recorder.Claim
	TraceParent string          `json:"traceparent,omitempty"`
	QueuedMS    float64         `json:"queued_ms,omitempty"`
}

// What one answer of a store has at most, besides the last of its items, in bytes. All
// who ask at once hold so much of it in memory, and so does the database.
const (
	ClaimBytes = 8 << 20 // specs of Claim
	PageBytes  = 8 << 20 // records of Results
)

// LeaseRef names a lease that a worker believes it holds.
type LeaseRef struct {
	Job   job.ID    `json:"job"`
	Lease job.Lease `json:"lease"`
}

// Held is a lease and who says that it holds it. Messages of many workers share one
// call, so each lease names its own.
type Held struct {
	LeaseRef
	Worker string
}

// Finish is the end of one attempt.
type Finish struct {
	LeaseRef
	// Worker says so. It is known from where the message came, and never part of it.
	Worker  string      `json:"-"`
	BatchID job.ID      `json:"batch_id,omitempty"` // as claimed: a hint for those who wait for the batch
	Outcome job.Outcome `json:"outcome"`
	// TraceParent is the job's, as claimed: the recording is a step of its trace.
	TraceParent string          `json:"traceparent,omitempty"`
	Tenant      string          `json:"tenant,omitempty"` // as claimed, if there is a TraceParent
	Result      json.RawMessage `json:"result"`           // JSON of job.Result; what identifies the job in it is overwritten
	// Record is given the record, as Reader.Result would return it, when it is
	// committed; nil: nobody waits for it. A repeated Finish may not give it.
	Record func(json.RawMessage) `json:"-"`
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
	Worker  string     `json:"-"` // says so, as in Finish
	Reason  job.Reason `json:"reason"`
	Message string     `json:"message,omitempty"`
}

// Canceling is what became of a cancel request.
type Canceling struct {
	LeaseRef
	Worker string    // who runs it, if State is running
	State  job.State // after the request
}

// JobFilter says which jobs are listed: those to which all of it applies.
type JobFilter struct {
	State   job.State         // empty: any
	Outcome job.Outcome       // how it ended; empty: any, and not yet
	Failed  bool              // it is over, and did not succeed
	Failure job.Outcome       // its failure class, as in job.Summary; empty: any
	Batch   job.ID            // empty: any, and none
	Labels  map[string]string // its own or, for keys that it has not itself, its batch's
	Since   time.Time         // submitted at or after; zero: ever
	Until   time.Time         // submitted before; zero: up to now

	Name, NamePrefix string
	Image            string // as the job names it; those of languages have theirs from the catalogue
	Worker           string // on which it runs, or ended
	// MinDuration and MaxDuration are from its start to its end, or to now; 0: any, and jobs that did not start.
	MinDuration, MaxDuration time.Duration
	// Text is in the message of its result, or in the exception or the first failed test that is shown where there is none;
	// letters of either case are the same.
	Text string
}

// Input is a blob that jobs of a tenant name.
type Input struct {
	Tenant string
	Blob   string // "sha256:…"
}

// GrantIf says when a tenant is changed; its zero value, in any case.
type GrantIf struct {
	Version *int64 // what is granted has this version: nobody changed it since
	Entry   string // what is told of it is not what this entry of a file told last
}

// CancelQuery says which jobs are canceled: those under way to which all of it applies.
type CancelQuery struct {
	Labels map[string]string // its own or, for keys that it has not itself, its batch's
	Batch  job.ID            // empty: any, and none
	State  job.State         // queued, dispatched or running; empty: any of them
	DryRun bool              // nothing is canceled: the answer says what would be
}

// PriorityQuery says which jobs get another priority: those that are queued and to which all of it applies.
type PriorityQuery struct {
	Labels   map[string]string // its own or, for keys that it has not itself, its batch's
	Batch    job.ID            // empty: any, and none
	Priority int               // what they have then
	DryRun   bool              // nothing is changed: the answer says what would be
}

// Canceled is what became of a request to cancel many jobs.
type Canceled struct {
	Running []Canceling // that have to be told
	Ended   int64       // that waited
	More    bool        // there are others that wait: ask again
}

// ReapStats counts what a reap changed.
type ReapStats struct {
	LeasesExpired  int64 // attempts taken back because their lease ended
	JobsLost       int64 // of those, jobs whose infrastructure budget was used up
	JobsTakenBack  int64 // dispatched, but nobody claimed them
	JobsExpired    int64 // waited longer than their expires_in
	JobsCanceled   int64 // of batches that are canceled or abandoned
	BatchesDropped int64 // open for too long, never sealed
	// BatchesAbandoned are batches whose client was not heard of for the length of
	// their lease.
	BatchesAbandoned int64
	// Stopping are running jobs of batches that are canceled and not over, to be
	// told to the workers.
	Stopping []Canceling
	// Steps is the time of each step, by its name.
	Steps map[string]time.Duration
}

// Time notes the time of one step.
func (s *ReapStats) Time(step string, do func() error) error {
	if s.Steps == nil {
		s.Steps = map[string]time.Duration{}
	}
	start := time.Now()
	err := do()
	s.Steps[step] += time.Since(start)
	return err
}

// Add adds what another reap changed.
func (s *ReapStats) Add(o ReapStats) {
	s.LeasesExpired += o.LeasesExpired
	s.JobsLost += o.JobsLost
	s.JobsTakenBack += o.JobsTakenBack
	s.JobsExpired += o.JobsExpired
	s.JobsCanceled += o.JobsCanceled
	s.BatchesDropped += o.BatchesDropped
	s.BatchesAbandoned += o.BatchesAbandoned
	s.Stopping = append(s.Stopping, o.Stopping...)
}

// Forgotten counts what a Forget removed.
type Forgotten struct{ Days, Batches, Sessions int }

// Stats is a summary of the live rows. Queued numbers above StatsCap are at
// least that; the others are exact.
type Stats struct {
	Queued, Dispatched, Running int64
	OldestQueued                time.Duration
	Pools                       map[string]PoolStats // classes with live rows
	RunningIn                   map[string]int64     // running jobs by the pool of their worker, as it was last seen

	OldestDispatched  time.Duration // since the longest dispatched job was handed to the queue
	Callbacks         int64         // not delivered yet, counted to StatsCap
	Undated           int64         // jobs whose id is of no day that has a partition, counted to StatsCap
	Days              int64         // partitions of jobs
	LiveDays          int64         // those that the statements of the queue look at
	OldestTransaction time.Duration // how long one has kept the database from cleaning up; of other roles only where ours may see it
}

// StatsCap is how far Stats counts queued rows one by one.
const StatsCap = 10_000

// PoolStats is the same for one class.
type PoolStats struct {
	Queued, Dispatched, Running int64
	OldestQueued                time.Duration
}
