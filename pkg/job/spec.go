package job

import (
	"encoding/json"
	"time"
)

// Spec is a client's job: one program to run once.
type Spec struct {
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Image    string            `json:"image,omitempty"` // default "python"
	Priority int               `json:"priority,omitempty"`
	Program  Program           `json:"program"`
	Files    map[string]File   `json:"files,omitempty"` // absolute path → contents

	// Policy is an inline policy object or the name of a stored one, as the client sent it. Package
	// policy interprets it. After admission it is the complete object with defaults.
	Policy json.RawMessage `json:"policy,omitempty"`

	// Pool is the pool of workers that may run the job. Empty: any pool that is not exclusive.
	Pool string `json:"pool,omitempty"`
	// Requires are labels that the worker must have.
	Requires map[string]string `json:"requires,omitempty"`

	Retry     Retry    `json:"retry,omitzero"`
	ExpiresIn Duration `json:"expires_in,omitempty"` // longest wait from acceptance to start; default: unlimited
	Cache     bool     `json:"cache,omitempty"`
}

// Retry is the user's retry budget. Infrastructure failures do not count against it.
type Retry struct {
	MaxAttempts int       `json:"max_attempts,omitempty"` // default 1
	On          []Outcome `json:"on,omitempty"`           // outcomes worth another attempt
}

// Summary is a job in a list.
type Summary struct {
	ID       ID                `json:"id"`
	BatchID  ID                `json:"batch_id,omitempty"`
	Tenant   string            `json:"tenant,omitempty"`
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"` // the job's own labels
	Image    string            `json:"image,omitempty"`
	Priority int               `json:"priority,omitempty"`
	State    State             `json:"state"`
	Outcome  Outcome           `json:"outcome,omitempty"`
	// its outcome or, for failed tests, the outcome of the first failed case; empty: success
	Failure  Outcome `json:"failure,omitempty"`
	Reason   Reason  `json:"reason,omitempty"` // of the last attempt, if infrastructure is to blame
	Message  string  `json:"message,omitempty"`
	Attempts int     `json:"attempts,omitempty"` // number of starts
	Worker   string  `json:"worker,omitempty"`   // the worker that runs or ran it

	CreatedAt  time.Time `json:"created_at"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	DurationMS float64   `json:"duration_ms,omitempty"` // from start to end, or to now
}

// Job is an accepted Spec and its state.
type Job struct {
	ID        ID        `json:"id"`
	BatchID   ID        `json:"batch_id,omitempty"`
	Tenant    string    `json:"tenant,omitempty"`
	Spec      Spec      `json:"spec"`
	Pool      string    `json:"pool,omitempty"` // its class: the named pool and further requirements on workers
	State     State     `json:"state"`
	Message   string    `json:"message,omitempty"`   // why a queued or dispatched job does not run
	WaitsFor  Wait      `json:"waits_for,omitempty"` // the same in a word
	Lease     Lease     `json:"lease,omitempty"`
	Worker    string    `json:"worker,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Result    *Result   `json:"result,omitempty"`
	TraceID   string    `json:"trace_id,omitempty"`
}

// Batch is a set of jobs submitted together, and its progress.
type Batch struct {
	ID        ID                `json:"id"`
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	LabelCaps LabelCaps         `json:"label_caps,omitempty"`
	Tenant    string            `json:"tenant,omitempty"`
	RetryOf   ID                `json:"retry_of,omitempty"` // the batch whose failures these jobs repeat
	Callback  *Delivery         `json:"callback,omitempty"`
	// Lease is how long the batch runs on after the last contact from its client; 0: to its end.
	// LeaseUntil is the end of this time, for batches that are not done.
	Lease      Duration  `json:"lease,omitempty"`
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	Abandoned  bool      `json:"abandoned,omitempty"` // its lease expired before it was done
	Paused     bool      `json:"paused,omitempty"`    // an operator paused the batch or its tenant; queued jobs wait

	Total     int64             `json:"total"`
	Counts    map[State]int64   `json:"counts"`
	Outcomes  map[Outcome]int64 `json:"outcomes"`
	CreatedAt time.Time         `json:"created_at"`
	EndedAt   time.Time         `json:"ended_at,omitzero"` // when its last job reached a terminal state
	IDs       []ID              `json:"ids,omitempty"`     // of its jobs, in responses to submits that request them
}

// Done reports whether every job of b is in a terminal state.
func (b Batch) Done() bool { return b.Counts[Finished]+b.Counts[Canceled] >= b.Total }
