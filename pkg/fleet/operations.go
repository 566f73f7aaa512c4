package fleet

import (
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Action is one thing that somebody did which others may ask about.
type Action struct {
	ID      job.ID          `json:"id"`  // grows with time
	Seq     int64           `json:"seq"` // grows in the order in which actions were committed
	At      time.Time       `json:"at"`  // by the store's clock
	Actor   string          `json:"actor"`
	Token   string          `json:"token,omitempty"`  // tells an actor's tokens apart
	Remote  string          `json:"remote,omitempty"` // the address that it was asked for from
	Action  string          `json:"action"`
	Subject string          `json:"subject"`          // what was acted on
	Tenant  string          `json:"tenant,omitempty"` // whose that is; empty: the fleet's
	Reason  string          `json:"reason,omitempty"`
	Detail  json.RawMessage `json:"detail,omitempty"` // an object
	Before  json.RawMessage `json:"before,omitempty"` // what of the subject was changed, as it was; an object
	After   json.RawMessage `json:"after,omitempty"`  // and as it is since
	Outcome ActionOutcome   `json:"outcome"`
}

// ActionOutcome is what came of an Action.
type ActionOutcome string

// The outcomes.
const (
	ActionDone      ActionOutcome = "done"
	ActionUnchanged ActionOutcome = "unchanged" // it was so already
	ActionFailed    ActionOutcome = "failed"
)

// ActionQuery chooses actions: those to which all of it applies; its zero value, the newest of all.
type ActionQuery struct {
	Before  job.ID // older than this one
	Actor   string
	Action  string
	Subject string
	Tenant  string
	Since   time.Time // done then or later
	Until   time.Time // done before
	Limit   int       // at least 1
}

// Pause is something that is paused.
type Pause struct {
	Kind   string    `json:"kind"`
	Name   string    `json:"name"`
	At     time.Time `json:"at"` // by the store's clock
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// Tenant is who pays.
type Tenant struct {
	Name       string          `json:"name"`
	Version    int64           `json:"version"`               // how often what it is granted was changed
	Weight     float64         `json:"weight"`                // share of the fleet when it is contended, default 1
	MaxRunning int             `json:"max_running,omitempty"` // most jobs dispatched or running at once, 0: no limit
	LabelCaps  job.LabelCaps   `json:"label_caps,omitempty"`  // the same for jobs with the same value of a label
	Ceiling    json.RawMessage `json:"ceiling,omitempty"`     // the most that its policies may ask for, nil: no limit
	// Override is set while an operator has replaced some of it: Weight, MaxRunning and
	// LabelCaps are what counts now. It is nothing to PutTenant.
	Override *Overridden `json:"override,omitempty"`
}

// Override is what counts for a tenant in place of what it is granted. nil: as granted.
type Override struct {
	Weight     *float64       `json:"weight,omitempty"`
	MaxRunning *int           `json:"max_running,omitempty"` // 0: no limit
	LabelCaps  *job.LabelCaps `json:"label_caps,omitempty"`  // empty: none
}

// Overridden is an override and what it is laid over.
type Overridden struct {
	Set     Override   `json:"set"`
	Until   *time.Time `json:"until,omitempty"` // by the store's clock; nil: until it is ended
	Granted Override   `json:"granted"`
}

// Verified is a batch as its counters have it and as its rows do, at one moment.
type Verified struct {
	Batch    job.ID                `json:"batch"`
	Total    int64                 `json:"total"`
	Recorded int64                 `json:"recorded"` // by the counter
	Results  int64                 `json:"results"`  // rows
	Live     int64                 `json:"live"`     // rows that are queued, dispatched or running
	Ended    bool                  `json:"ended"`    // by the counters
	Counters map[job.Outcome]int64 `json:"counters"`
	Rows     map[job.Outcome]int64 `json:"rows"`
	// Problems says what differs; empty: nothing.
	Problems []string `json:"problems,omitempty"`
	// Repairable says that the counters alone are wrong.
	Repairable bool `json:"repairable,omitempty"`
}
