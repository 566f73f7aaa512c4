package fleet

import (
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Action is an entry of the audit log.
type Action struct {
	ID      job.ID          `json:"id"`  // grows with time
	Seq     int64           `json:"seq"` // grows in the order in which actions were committed
	At      time.Time       `json:"at"`  // by the store's clock
	Actor   string          `json:"actor"`
	Token   string          `json:"token,omitempty"`  // distinguishes the tokens of an actor
	Remote  string          `json:"remote,omitempty"` // the address of the client
	Action  string          `json:"action"`
	Subject string          `json:"subject"`          // the object of the action
	Tenant  string          `json:"tenant,omitempty"` // owner of the subject; empty: the fleet
	Reason  string          `json:"reason,omitempty"`
	Detail  json.RawMessage `json:"detail,omitempty"` // an object
	Before  json.RawMessage `json:"before,omitempty"` // the changed fields of the subject, before the action; an object
	After   json.RawMessage `json:"after,omitempty"`  // and after it
	Outcome ActionOutcome   `json:"outcome"`
}

// ActionOutcome is the result of an Action.
type ActionOutcome string

// The outcomes.
const (
	ActionDone      ActionOutcome = "done"
	ActionUnchanged ActionOutcome = "unchanged" // it had no effect
	ActionFailed    ActionOutcome = "failed"
)

// ActionQuery selects the actions that match all of its fields. Its zero value selects the newest
// actions.
type ActionQuery struct {
	Before  job.ID // older than this one
	Actor   string
	Action  string
	Subject string
	Tenant  string
	Since   time.Time // at that time or later
	Until   time.Time // before that time
	Limit   int       // at least 1
}

// Pause is a paused object.
type Pause struct {
	Kind   string    `json:"kind"`
	Name   string    `json:"name"`
	At     time.Time `json:"at"` // by the store's clock
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// Tenant is an owner of jobs, which pays for them, and its limits.
type Tenant struct {
	Name       string          `json:"name"`
	Version    int64           `json:"version"`               // number of changes to its grants
	Weight     float64         `json:"weight"`                // share of the fleet when it is contended, default 1
	MaxRunning int             `json:"max_running,omitempty"` // most jobs dispatched or running at once, 0: no limit
	LabelCaps  job.LabelCaps   `json:"label_caps,omitempty"`  // the same, for jobs with the same value of a label
	Ceiling    json.RawMessage `json:"ceiling,omitempty"`     // the most that its policies may request, nil: no limit
	// Override is set while an operator overrides some grants. Weight, MaxRunning and LabelCaps are
	// then the effective values. PutTenant ignores it.
	Override *Overridden `json:"override,omitempty"`
}

// Override replaces grants of a tenant. nil: as granted.
type Override struct {
	Weight     *float64       `json:"weight,omitempty"`
	MaxRunning *int           `json:"max_running,omitempty"` // 0: no limit
	LabelCaps  *job.LabelCaps `json:"label_caps,omitempty"`  // empty: none
}

// Overridden is an override and the grants beneath it.
type Overridden struct {
	Set     Override   `json:"set"`
	Until   *time.Time `json:"until,omitempty"` // by the store's clock; nil: until an operator ends it
	Granted Override   `json:"granted"`
}

// Verified compares the counters of a batch with its rows, at one moment.
type Verified struct {
	Batch    job.ID                `json:"batch"`
	Total    int64                 `json:"total"`
	Recorded int64                 `json:"recorded"` // by the counter
	Results  int64                 `json:"results"`  // rows
	Live     int64                 `json:"live"`     // rows that are queued, dispatched or running
	Ended    bool                  `json:"ended"`    // by the counters
	Counters map[job.Outcome]int64 `json:"counters"`
	Rows     map[job.Outcome]int64 `json:"rows"`
	// Problems lists the differences; empty: none.
	Problems []string `json:"problems,omitempty"`
	// Repairable is set if only the counters are wrong.
	Repairable bool `json:"repairable,omitempty"`
}
