package api

import (
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// Header names of the contract.
const (
	// HeaderIdempotencyKey identifies a POST, so that a retry takes effect only once.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderReplayed is "true" on the stored response to an earlier request with the same key.
	HeaderReplayed = "Idempotency-Replayed"
	// HeaderContentDigest (RFC 9530) is the sha256 of a streamed batch. With it, the server can
	// accept the batch under a key before reading its end.
	HeaderContentDigest = "Content-Digest"
	// HeaderTransferKey is the key that seals the secrets of a tenant on the way to another fleet:
	// 32 bytes in base64.
	HeaderTransferKey = "Assay-Transfer-Key"
	// HeaderCursor is the start of the next page of results.
	HeaderCursor = "Assay-Cursor"
	// HeaderComplete is "true" on the last page of results.
	HeaderComplete = "Assay-Complete"
)

// Media types of the contract.
const (
	JSON    = "application/json"
	NDJSON  = "application/x-ndjson"
	Problem = "application/problem+json"
)

// Accepted is the response to a submit, a cancel, and a run that exceeded its wait. State is the
// job's state a moment ago.
type Accepted struct {
	ID    job.ID    `json:"id"`
	State job.State `json:"state"`
	URL   string    `json:"url"` // of the job, relative to the server
}

// CancelRequest selects active jobs that match all of its fields. At least one field is required.
type CancelRequest struct {
	// Labels that a job must have, all of them. A batch's label counts for jobs without this key.
	Labels map[string]string `json:"labels,omitempty"`
	Batch  job.ID            `json:"batch,omitempty"`
	State  job.State         `json:"state,omitempty"`   // queued, dispatched or running
	DryRun bool              `json:"dry_run,omitempty"` // only count them
}

// CancelReport is the result of a CancelRequest.
type CancelReport struct {
	Canceled int64 `json:"canceled"`          // waiting jobs, which have ended
	Stopping int64 `json:"stopping"`          // running jobs, which are being stopped
	DryRun   bool  `json:"dry_run,omitempty"` // nothing was changed
}

// PriorityRequest sets the priority of queued jobs that match all of its fields. Labels or a batch
// are required.
type PriorityRequest struct {
	Labels   map[string]string `json:"labels,omitempty"` // as in a CancelRequest
	Batch    job.ID            `json:"batch,omitempty"`
	Priority *int              `json:"priority"`
	DryRun   bool              `json:"dry_run,omitempty"` // only count them
}

// PriorityReport is the result of a PriorityRequest.
type PriorityReport struct {
	Changed int64 `json:"changed"`           // jobs that had a different priority
	DryRun  bool  `json:"dry_run,omitempty"` // nothing was changed
}

// BatchRequest is a batch as one JSON object. Every job is merged into Defaults: objects field by
// field, other values replaced.
type BatchRequest struct {
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Callback *job.Callback     `json:"callback,omitempty"` // sent when the batch is done
	// cancels the batch after this time without contact from its client
	Lease job.Duration `json:"lease,omitempty"`
	// LabelCaps limits how many jobs of this batch with the same value of a label run at once.
	LabelCaps job.LabelCaps     `json:"label_caps,omitempty"`
	Defaults  json.RawMessage   `json:"defaults,omitempty"`
	Jobs      []json.RawMessage `json:"jobs"`
}

// UploadRequest starts a batch that comes in chunks. It has the fields of a BatchRequest except the
// jobs.
type UploadRequest struct {
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Callback  *job.Callback     `json:"callback,omitempty"`
	Lease     job.Duration      `json:"lease,omitempty"`
	LabelCaps job.LabelCaps     `json:"label_caps,omitempty"`
	Defaults  json.RawMessage   `json:"defaults,omitempty"`
}

// Upload is the state of a batch that comes in chunks.
type Upload struct {
	ID        job.ID    `json:"id"` // also the batch's ID after the seal
	Name      string    `json:"name,omitempty"`
	NextChunk int64     `json:"next_chunk"` // the next expected chunk
	Jobs      int64     `json:"jobs"`       // in the chunks so far
	Sealed    bool      `json:"sealed"`
	CreatedAt time.Time `json:"created_at"`
	// the upload is dropped at this time without a chunk; nil: it is sealed
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// SealRequest ends an upload.
type SealRequest struct {
	Jobs *int64 `json:"jobs,omitempty"` // the expected number; nil: no check
}

// LinkRequest requests a temporary URL that works without a key. It selects one file of a job: an
// artifact, or an output of the whole job or a step.
type LinkRequest struct {
	Path      string       `json:"path,omitempty"`
	Stream    string       `json:"stream,omitempty"`
	Step      *int         `json:"step,omitempty"`
	ExpiresIn job.Duration `json:"expires_in,omitempty"` // at most 7 days; 0: one hour
}

// Link is a temporary URL of a file.
type Link struct {
	URL       string    `json:"url"` // relative to the server
	ExpiresAt time.Time `json:"expires_at"`
}

// LogState is the state of a job in a log stream. Live reports that output arrives while the job
// runs.
type LogState struct {
	State   job.State   `json:"state"`
	Outcome job.Outcome `json:"outcome,omitempty"`
	Live    bool        `json:"live"`
}

// LogPart is a part of a stream's output.
type LogPart struct {
	Offset int64 `json:"offset"` // of its first byte in the stream
	// bytes before it that were discarded, or that this viewer was too slow to receive
	Missed int64 `json:"missed,omitempty"`
	Step   int   `json:"step,omitempty"` // of a command with steps
	// it is from the record, which lacks the middle of the stream; offsets refer to the record
	Cut    bool   `json:"cut,omitempty"`
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"` // for output that is not UTF-8
}

// JobList is a page of jobs, last submitted first. A page may be short or empty although Next is
// set, because other jobs were filtered out.
type JobList struct {
	Jobs []job.Summary `json:"jobs"`
	Next job.ID        `json:"next,omitempty"` // the before= parameter of the next page
}

// BatchList is a page of batches, last accepted first.
type BatchList struct {
	Batches []job.Batch `json:"batches"`
	Next    job.ID      `json:"next,omitempty"` // the before= parameter of the next page
}

// BatchMap is a part of a batch's jobs in the order of submission. The three lists have one entry
// for each job.
type BatchMap struct {
	IDs        []job.ID `json:"ids"`
	Ends       []string `json:"ends"`           // the outcome, or the state of a job that has not ended
	DurationMS []int64  `json:"duration_ms"`    // from start to end, or to now; 0: not started
	Next       job.ID   `json:"next,omitempty"` // the after= parameter of the next part
}

// BatchStates is the progress of some batches.
type BatchStates struct {
	States []fleet.BatchState `json:"states"`
}

// PolicyList is the tenant's stored policies, the newest version of each.
type PolicyList struct {
	Policies []fleet.StoredPolicy `json:"policies"`
}

// SecretList lists a tenant's secrets. Their values are never returned.
type SecretList struct {
	Secrets []fleet.StoredSecret `json:"secrets"`
}

// SecretValue is the value of a secret to store.
type SecretValue struct {
	Value string `json:"value"`
}

// ArtifactList lists the artifacts of a job.
type ArtifactList struct {
	Artifacts []job.Artifact `json:"artifacts"`
}

// WorkerList is the fleet. Only operators get workers; others get sums, because details of hosts
// reveal other tenants' activity.
type WorkerList struct {
	Workers []fleet.Worker `json:"workers"`
	Pools   []PoolSummary  `json:"pools"`          // of all workers, whichever are asked for
	Next    string         `json:"next,omitempty"` // give it as after= for the next page
}

// Fleet is the fleet's current activity. Only operators get workers; others get waiting and running
// jobs of their own tenant only.
type Fleet struct {
	At      time.Time          `json:"at"`
	Workers []fleet.Worker     `json:"workers"`
	Next    string             `json:"next,omitempty"` // give it as after= for the next page of workers
	Pools   []PoolSummary      `json:"pools"`          // of all workers, whichever are asked for
	Queue   []fleet.QueueGroup `json:"queue"`
}

// PoolSummary sums up the connected workers of one pool.
type PoolSummary struct {
	Pool    string `json:"pool"`
	Workers int    `json:"workers"`
	Slots   int    `json:"slots"`   // most jobs that run for a short time, at once
	Running int    `json:"running"` // jobs, however long they have run
	Free    int    `json:"free"`    // jobs that would start at once
	Busy    int    `json:"busy"`    // Running, under the name that it had first
	// Sessions counts live sessions.
	Sessions  int     `json:"sessions,omitempty"`
	Cores     float64 `json:"cores,omitempty"`      // cores of the workers' hosts
	CoresUsed float64 `json:"cores_used,omitempty"` // cores that jobs and sessions use
	// Exclusive reports that its workers run only jobs that name the pool.
	Exclusive bool `json:"exclusive,omitempty"`
}

// Explanation lists the mechanisms that would enforce a policy.
type Explanation struct {
	Policy      json.RawMessage   `json:"policy"`         // with all defaults
	Enforcement []job.Enforcement `json:"enforcement"`    // the same table as in results
	Host        string            `json:"host,omitempty"` // the worker of the plan; empty: none connected
	Refused     string            `json:"refused,omitempty"`
}
