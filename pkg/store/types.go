package store

import (
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Cursor is a position in a batch's results; zero is the beginning.
type Cursor int64

// Idempotency identifies a request, so that it can be repeated.
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
	Lease     time.Duration // canceled after this time without a KeepBatch; 0: never
	Callback  *job.Callback // optional
	LabelCaps job.LabelCaps
}

// NewJob is a job to accept. Spec has been validated and its policy resolved.
type NewJob struct {
	ID          job.ID
	Tenant      string
	Pool        string // its class, which decides the suitable workers (package placement)
	Priority    int
	MaxAttempts int           // the user's own budget; 0 counts as 1
	RetryOn     []job.Outcome // outcomes worth another of MaxAttempts
	ExpiresIn   time.Duration // 0: never
	Caps        []Cap         // its labels that the tenant or batch caps
	Spec        []byte        // JSON of job.Spec
	TraceParent string
	// CacheKey is equal for jobs that may share a record; nil: the result cache is not used.
	CacheKey []byte
	// Worker runs the job at once, under a lease of LeaseTTL that it did not request, if the job may be dispatched at
	// once; empty: any worker claims it. It is for SubmitJob.
	Worker   string
	Since    Incarnation // the process of that name
	LeaseTTL time.Duration
}

// Progress is how far a batch is. Results are numbered in the order of recording, so a cursor of Recorded or more has
// seen all current results.
type Progress struct {
	Batch    job.ID
	Tenant   string
	Recorded Cursor
	Done     bool
}

// Ref names one delivery: a job and its published generation.
type Ref struct {
	Job        job.ID         `json:"job"`
	Generation job.Generation `json:"gen"`
}

// Incarnation distinguishes the processes that had a worker's name: the start of one of them, by its own clock, in
// microseconds since 1970. 0: not reported.
type Incarnation int64

// IncarnationOf returns the incarnation of a process that started at t; 0 for the zero time.
func IncarnationOf(t time.Time) Incarnation {
	if t.IsZero() {
		return 0
	}
	return Incarnation(t.UnixMicro())
}

// Time returns the start of the process.
func (i Incarnation) Time() time.Time { return time.UnixMicro(int64(i)) }

// Claim requests the lease of one delivery. Claims of many workers share one call, so each names its worker.
type Claim struct {
	Ref
	Worker string
	Since  Incarnation
}

// Dispatch is a job to publish.
type Dispatch struct {
	Ref
	Cacheable   bool      // has a cache key: see ResultCache
	Lease       job.Lease // lease of the worker for which it was submitted; 0: to be claimed
	Pool        string
	TraceParent string
	BatchID     job.ID // set only with a TraceParent
	Tenant      string // set only with a TraceParent
}

// Claimed answers one claim. A zero Lease means that the claim was refused: the delivery is stale and must be dropped,
// or, with Later, released.
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

// The most bytes in one answer, without its last item. The store and the database hold this much in memory for each
// concurrent caller.
const (
	ClaimBytes = 8 << 20 // specs of Claim
	PageBytes  = 8 << 20 // records of Results
)

// LeaseRef names a lease that a worker believes it holds.
type LeaseRef struct {
	Job   job.ID    `json:"job"`
	Lease job.Lease `json:"lease"`
}

// Held is a lease and its claimed holder. Messages of many workers share one call, so each lease names its worker.
type Held struct {
	LeaseRef
	Worker string
}

// Finish is the end of one attempt.
type Finish struct {
	LeaseRef
	// Worker sends it. The receiver of the message sets it; it is never part of the message.
	Worker  string      `json:"-"`
	BatchID job.ID      `json:"batch_id,omitempty"` // as claimed: a hint for clients that wait for the batch
	Outcome job.Outcome `json:"outcome"`
	// TraceParent is the job's, as claimed: the recording is a step of its trace.
	TraceParent string          `json:"traceparent,omitempty"`
	Tenant      string          `json:"tenant,omitempty"` // as claimed, if there is a TraceParent
	Result      json.RawMessage `json:"result"`           // JSON of job.Result; its fields that identify the job are overwritten
	// Record receives the committed record, as Reader.Result would return it; nil: not needed. A repeated Finish may
	// not call it.
	Record func(json.RawMessage) `json:"-"`
}

// FinishStatus is the effect of a Finish.
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
	Worker  string     `json:"-"` // sender, as in Finish
	Reason  job.Reason `json:"reason"`
	Message string     `json:"message,omitempty"`
}

// Canceling is the effect of a cancel request.
type Canceling struct {
	LeaseRef
	Worker string    // its worker, if State is running
	State  job.State // after the request
}

// JobFilter selects jobs that match all of its fields.
type JobFilter struct {
	State   job.State         // empty: any
	Outcome job.Outcome       // how it ended; empty: any, and not yet
	Failed  bool              // it is over, and did not succeed
	Failure job.Outcome       // its failure class, as in job.Summary; empty: any
	Batch   job.ID            // empty: any, and none
	Labels  map[string]string // its own labels; keys that it lacks come from its batch
	Since   time.Time         // submitted at or after; zero: ever
	Until   time.Time         // submitted before; zero: up to now

	Name, NamePrefix string
	Image            string // as the job names it; jobs in a language get theirs from the catalogue
	Worker           string // the worker that runs it, or ran it last
	// MinDuration and MaxDuration are from its start to its end, or to now; 0: any, and jobs that did not start.
	MinDuration, MaxDuration time.Duration
	// Text is in the message of its result, or, without a message, in the exception or the first failed test. Case is
	// ignored.
	Text string
}

// Input is a blob that jobs of a tenant name.
type Input struct {
	Tenant string
	Blob   string // "sha256:…"
}

// GrantIf is the condition of a change to a tenant; the zero value always holds.
type GrantIf struct {
	Version *int64 // the tenant still has this version
	Entry   string // the last applied entry for it differs from this entry of a file
}

// CancelQuery selects unfinished jobs that match all of its fields.
type CancelQuery struct {
	Labels map[string]string // its own or, for keys that it has not itself, its batch's
	Batch  job.ID            // empty: any, and none
	State  job.State         // queued, dispatched or running; empty: any of them
	DryRun bool              // cancel nothing and return the jobs that would be
}

// PriorityQuery selects queued jobs that match all of its other fields, for a new priority.
type PriorityQuery struct {
	Labels   map[string]string // its own or, for keys that it has not itself, its batch's
	Batch    job.ID            // empty: any, and none
	Priority int               // the new priority
	DryRun   bool              // change nothing and return the number of jobs that would change
}

// Canceled is the effect of a request to cancel many jobs.
type Canceled struct {
	Running []Canceling // jobs whose workers must be notified
	Ended   int64       // waiting jobs, now ended
	More    bool        // more jobs wait: repeat the request
}

// ReapStats counts what a reap changed.
type ReapStats struct {
	LeasesExpired  int64 // attempts taken back after their lease ended
	JobsLost       int64 // of these, jobs with a used-up infrastructure budget
	JobsTakenBack  int64 // dispatched and never claimed
	JobsExpired    int64 // waited longer than their expires_in
	JobsCanceled   int64 // in canceled or abandoned batches
	BatchesDropped int64 // open for too long, never sealed
	// BatchesAbandoned counts batches whose client did not renew the lease.
	BatchesAbandoned int64
	// Stopping lists running jobs of canceled batches that are not over; their workers must be notified.
	Stopping []Canceling
	// Steps is the duration of each step, by name.
	Steps map[string]time.Duration
}

// Time runs one step and adds its duration to Steps.
func (s *ReapStats) Time(step string, do func() error) error {
	if s.Steps == nil {
		s.Steps = map[string]time.Duration{}
	}
	start := time.Now()
	err := do()
	s.Steps[step] += time.Since(start)
	return err
}

// Add adds the counts of another reap.
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

// Forgotten counts the history that a Forget removed.
type Forgotten struct{ Days, Batches, Sessions int }

// Stats is a summary of the live rows. Queued numbers above StatsCap are at
// least that; the others are exact.
type Stats struct {
	Queued, Dispatched, Running int64
	OldestQueued                time.Duration
	Pools                       map[string]PoolStats // classes with live rows
	RunningIn                   map[string]int64     // running jobs by the last reported pool of their worker

	OldestDispatched  time.Duration // since the job dispatched longest ago was given to the queue
	Callbacks         int64         // undelivered, counted to StatsCap
	Undated           int64         // jobs whose id belongs to no day with a partition, counted to StatsCap
	Days              int64         // partitions of jobs
	LiveDays          int64         // those that the queue's statements read
	OldestTransaction time.Duration // age of the oldest transaction that prevents cleanup; transactions of other roles only if ours may see them
}

// StatsCap is the most queued rows that Stats counts one by one.
const StatsCap = 10_000

// PoolStats is Stats of one class.
type PoolStats struct {
	Queued, Dispatched, Running int64
	OldestQueued                time.Duration
}
