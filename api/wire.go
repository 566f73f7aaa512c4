package api

import (
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// Header names of the contract.
const (
	// HeaderIdempotencyKey names a POST, so that it can be said twice.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderReplayed is "true" on an answer that an earlier request with the
	// same key already got.
	HeaderReplayed = "Idempotency-Replayed"
	// HeaderContentDigest (RFC 9530) carries the sha256 of a streamed batch, so
	// that it need not be read to its end before it is accepted under a key.
	HeaderContentDigest = "Content-Digest"
	// HeaderCursor is where the next page of results starts.
	HeaderCursor = "Assay-Cursor"
	// HeaderComplete is "true" on the page after which no results will follow.
	HeaderComplete = "Assay-Complete"
)

// Media types of the contract.
const (
	JSON    = "application/json"
	NDJSON  = "application/x-ndjson"
	Problem = "application/problem+json"
)

// Accepted answers a submit, a run that outlasted its wait, and a cancel: State
// is where the job was a moment ago.
type Accepted struct {
	ID    job.ID    `json:"id"`
	State job.State `json:"state"`
	URL   string    `json:"url"` // where to look, relative to the server
}

// CancelRequest names jobs: those under way to which all of it applies. It has to name something.
type CancelRequest struct {
	// Labels that a job has to have, all of them: its own or, for keys that it has
	// not itself, those of its batch.
	Labels map[string]string `json:"labels,omitempty"`
	Batch  job.ID            `json:"batch,omitempty"`
	State  job.State         `json:"state,omitempty"`   // queued, dispatched or running
	DryRun bool              `json:"dry_run,omitempty"` // only say how many there are
}

// CancelReport says what a CancelRequest met.
type CancelReport struct {
	Canceled int64 `json:"canceled"`          // jobs that waited: they are over
	Stopping int64 `json:"stopping"`          // jobs that run: they are being stopped
	DryRun   bool  `json:"dry_run,omitempty"` // none of it was done
}

// PriorityRequest names jobs that are queued, those to which all of it applies, and the priority that they get. It has to name
// labels or a batch.
type PriorityRequest struct {
	Labels   map[string]string `json:"labels,omitempty"` // as in a CancelRequest
	Batch    job.ID            `json:"batch,omitempty"`
	Priority *int              `json:"priority"`
	DryRun   bool              `json:"dry_run,omitempty"` // only say how many there are
}

// PriorityReport says what a PriorityRequest met.
type PriorityReport struct {
	Changed int64 `json:"changed"`           // jobs that had another priority
	DryRun  bool  `json:"dry_run,omitempty"` // none of it was done
}

// BatchRequest is a batch as one JSON object. Every job is laid over Defaults:
// objects are merged field by field, everything else is replaced.
type BatchRequest struct {
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Callback *job.Callback     `json:"callback,omitempty"` // whom to tell when it is done
	Lease    job.Duration      `json:"lease,omitempty"`    // canceled if its client is not heard of for so long
	// LabelCaps bounds how many jobs of this batch with the same value of a label
	// run at once.
	LabelCaps job.LabelCaps     `json:"label_caps,omitempty"`
	Defaults  json.RawMessage   `json:"defaults,omitempty"`
	Jobs      []json.RawMessage `json:"jobs"`
}

// UploadRequest begins a batch that comes in chunks: what a BatchRequest says beside its jobs.
type UploadRequest struct {
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Callback  *job.Callback     `json:"callback,omitempty"`
	Lease     job.Duration      `json:"lease,omitempty"`
	LabelCaps job.LabelCaps     `json:"label_caps,omitempty"`
	Defaults  json.RawMessage   `json:"defaults,omitempty"`
}

// Upload is how far a batch is that comes in chunks.
type Upload struct {
	ID        job.ID     `json:"id"` // and its batch's, once it is sealed
	Name      string     `json:"name,omitempty"`
	NextChunk int64      `json:"next_chunk"` // the one that is due
	Jobs      int64      `json:"jobs"`       // in the chunks before it
	Sealed    bool       `json:"sealed"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // it is dropped then if no chunk comes; nil: it is sealed
}

// SealRequest ends an upload.
type SealRequest struct {
	Jobs *int64 `json:"jobs,omitempty"` // how many there are to be; nil: as many as there are
}

// LinkRequest asks for an address of one file of a job that is good without a key: an artifact,
// or an output of the whole or of a step.
type LinkRequest struct {
	Path      string       `json:"path,omitempty"`
	Stream    string       `json:"stream,omitempty"`
	Step      *int         `json:"step,omitempty"`
	ExpiresIn job.Duration `json:"expires_in,omitempty"` // at most 7 days; 0: an hour
}

// Link is such an address.
type Link struct {
	URL       string    `json:"url"` // relative to the server
	ExpiresAt time.Time `json:"expires_at"`
}

// LogState is how far a job is whose logs are watched; Live: what it writes comes while it runs.
type LogState struct {
	State   job.State   `json:"state"`
	Outcome job.Outcome `json:"outcome,omitempty"`
	Live    bool        `json:"live"`
}

// LogPart is a part of what a program wrote to a stream.
type LogPart struct {
	Offset int64  `json:"offset"`           // of its first byte in the stream
	Missed int64  `json:"missed,omitempty"` // bytes before it that are not kept, or that this viewer was too slow for
	Step   int    `json:"step,omitempty"`   // of a command with steps
	Cut    bool   `json:"cut,omitempty"`    // it is from the record, in which the middle of the stream is left out, and counts offsets there
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"` // where it is not UTF-8
}

// JobList is a page of jobs, those submitted last first. It may have fewer than were asked
// for, or none, and Next all the same: then others were in between.
type JobList struct {
	Jobs []job.Summary `json:"jobs"`
	Next job.ID        `json:"next,omitempty"` // give it as before= for the next page
}

// BatchList is a page of batches, those accepted last first.
type BatchList struct {
	Batches []job.Batch `json:"batches"`
	Next    job.ID      `json:"next,omitempty"` // give it as before= for the next page
}

// BatchMap is a part of a batch's jobs in the order in which they were submitted: the three lists have one entry for each.
type BatchMap struct {
	IDs        []job.ID `json:"ids"`
	Ends       []string `json:"ends"`           // its outcome; the state of one that is not over
	DurationMS []int64  `json:"duration_ms"`    // from its start to its end, or to now; 0: it did not start
	Next       job.ID   `json:"next,omitempty"` // give it as after= for the next part
}

// BatchStates is how far some batches are.
type BatchStates struct {
	States []fleet.BatchState `json:"states"`
}

// PolicyList is the tenant's stored policies, the newest version of each.
type PolicyList struct {
	Policies []fleet.StoredPolicy `json:"policies"`
}

// SecretList says which secrets a tenant has. Values are never returned.
type SecretList struct {
	Secrets []fleet.StoredSecret `json:"secrets"`
}

// SecretValue is a secret on its way in.
type SecretValue struct {
	Value string `json:"value"`
}

// ArtifactList is what a job left behind.
type ArtifactList struct {
	Artifacts []job.Artifact `json:"artifacts"`
}

// WorkerList is the fleet. Who is no operator gets the sums only: what hosts there
// are, and what they have, tells of other tenants.
type WorkerList struct {
	Workers []fleet.Worker `json:"workers"`
	Pools   []PoolSummary  `json:"pools"`
}

// Fleet is what the fleet does at the moment. Who is no operator sees no workers, and of
// what waits and runs only the own tenant's.
type Fleet struct {
	At      time.Time          `json:"at"`
	Workers []fleet.Worker     `json:"workers"`
	Pools   []PoolSummary      `json:"pools"`
	Queue   []fleet.QueueGroup `json:"queue"`
}

// PoolSummary is the connected workers of one pool together.
type PoolSummary struct {
	Pool    string `json:"pool"`
	Workers int    `json:"workers"`
	Slots   int    `json:"slots"`
	Busy    int    `json:"busy"`
	// Exclusive says that its workers take jobs that name the pool, and no others.
	Exclusive bool `json:"exclusive,omitempty"`
}

// Explanation is what would enforce a policy, before anything runs.
type Explanation struct {
	Policy      json.RawMessage   `json:"policy"`         // with every default filled in
	Enforcement []job.Enforcement `json:"enforcement"`    // the same table as in a result
	Host        string            `json:"host,omitempty"` // worker it was planned for; empty: none is connected
	Refused     string            `json:"refused,omitempty"`
}
