package job

import (
	"encoding/json"
	"time"
)

// Spec is what a client submits: one program to run once.
type Spec struct {
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Image    string            `json:"image,omitempty"` // default "python"
	Priority int               `json:"priority,omitempty"`
	Program  Program           `json:"program"`
	Files    map[string]File   `json:"files,omitempty"` // absolute path → contents

	// Policy is an inline policy object or the name of a stored one, exactly as
	// the client sent it; package policy gives it meaning. After admission it
	// is the whole, defaulted object.
	Policy json.RawMessage `json:"policy,omitempty"`

	// Pool is of the workers that may run the job; "": of any that is not exclusive.
	Pool string `json:"pool,omitempty"`
	// Requires are labels that a worker must have to be given the job.
	Requires map[string]string `json:"requires,omitempty"`

	Retry     Retry    `json:"retry,omitzero"`
	ExpiresIn Duration `json:"expires_in,omitempty"` // longest wait from acceptance to start, default none
	Cache     bool     `json:"cache,omitempty"`
}

// Retry is the user's own retry budget. Infrastructure failures are never
// charged to it.
type Retry struct {
	MaxAttempts int       `json:"max_attempts,omitempty"` // default 1
	On          []Outcome `json:"on,omitempty"`           // outcomes worth another attempt
}

// Summary is a job in a list: what it is called and where it stands.
type Summary struct {
	ID       ID                `json:"id"`
	BatchID  ID                `json:"batch_id,omitempty"`
	Tenant   string            `json:"tenant,omitempty"`
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"` // its own
	Image    string            `json:"image,omitempty"`
	Priority int               `json:"priority,omitempty"`
	State    State             `json:"state"`
	Outcome  Outcome           `json:"outcome,omitempty"`
	Failure  Outcome           `json:"failure,omitempty"` // its outcome or, if tests failed, that of the first failed case; empty: it did not fail
	Reason   Reason            `json:"reason,omitempty"`  // of the attempt that it ended with, if infrastructure is to blame
	Message  string            `json:"message,omitempty"`
	Attempts int               `json:"attempts,omitempty"` // how often it was started
	Worker   string            `json:"worker,omitempty"`   // on which it runs, or ended

	CreatedAt  time.Time `json:"created_at"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	DurationMS float64   `json:"duration_ms,omitempty"` // from its start to its end, or to now
}

// Job is an accepted Spec and where it stands.
type Job struct {
	ID        ID        `json:"id"`
	BatchID   ID        `json:"batch_id,omitempty"`
	Tenant    string    `json:"tenant,omitempty"`
	Spec      Spec      `json:"spec"`
	Pool      string    `json:"pool,omitempty"` // its class: the pool that it names, and what else it needs of a worker
	State     State     `json:"state"`
	Message   string    `json:"message,omitempty"` // why a queued job does not run
	Lease     Lease     `json:"lease,omitempty"`
	Worker    string    `json:"worker,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Result    *Result   `json:"result,omitempty"`
	TraceID   string    `json:"trace_id,omitempty"`
}

// Batch is a set of jobs submitted together, and how far it has come.
type Batch struct {
	ID        ID                `json:"id"`
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	LabelCaps LabelCaps         `json:"label_caps,omitempty"`
	Tenant    string            `json:"tenant,omitempty"`
	RetryOf   ID                `json:"retry_of,omitempty"` // the batch whose failures these jobs repeat
	Callback  *Delivery         `json:"callback,omitempty"`
	// Lease is how long the batch goes on after its client was last heard of; 0: to
	// its end. LeaseUntil is when that is, while it is not done.
	Lease      Duration  `json:"lease,omitempty"`
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	Abandoned  bool      `json:"abandoned,omitempty"` // its lease ended before it was done
	Paused     bool      `json:"paused,omitempty"`    // an operator holds back what waits of it, or of its tenant

	Total     int64             `json:"total"`
	Counts    map[State]int64   `json:"counts"`
	Outcomes  map[Outcome]int64 `json:"outcomes"`
	CreatedAt time.Time         `json:"created_at"`
	EndedAt   time.Time         `json:"ended_at,omitzero"` // when its last job reached a terminal state
	IDs       []ID              `json:"ids,omitempty"`     // of its jobs, in the answer to a submit that asks for them
}

// Done reports whether every job of b is in a terminal state.
func (b Batch) Done() bool { return b.Counts[Finished]+b.Counts[Canceled] >= b.Total }
