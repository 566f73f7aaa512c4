package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Operations is what operators do to a fleet by hand. A method that is given an Action
// writes it down in the transaction in which it does what it says, and fills in what came
// of it: At, Outcome and Detail. After an error nothing is written.
type Operations interface {
	// Actions lists what was done, newest first.
	Actions(ctx context.Context, q ActionQuery) ([]Action, error)
	// NoteAction writes down what changed no row of its own, with the outcome that it
	// has.
	NoteAction(ctx context.Context, a *Action) error

	// Cordon keeps a worker from taking jobs, until Uncordon. What it runs goes on. Both are
	// job.ErrNotFound for a worker that is not listed.
	Cordon(ctx context.Context, a *Action, worker string) error
	Uncordon(ctx context.Context, a *Action, worker string) error
	// Confine puts a worker into quarantine for the given time from now on, whatever
	// Quarantine did before; Absolve ends a quarantine. job.ErrNotFound as Cordon.
	Confine(ctx context.Context, a *Action, worker string, d time.Duration) error
	Absolve(ctx context.Context, a *Action, worker string) error
	// Load is what a worker has under way, by the rows.
	Load(ctx context.Context, worker string) (Load, error)

	// Leader says who has a role now; job.ErrNotFound if nobody has.
	Leader(ctx context.Context, role string) (Leader, error)
	// Schema says how far the tables of this store have come.
	Schema(ctx context.Context) (Schema, error)
}

// Action is one thing that an operator did.
type Action struct {
	ID      job.ID          `json:"id"` // grows with time
	At      time.Time       `json:"at"` // by the store's clock
	Actor   string          `json:"actor"`
	Token   string          `json:"token,omitempty"` // tells an actor's tokens apart
	Action  string          `json:"action"`
	Subject string          `json:"subject"` // what was acted on
	Reason  string          `json:"reason,omitempty"`
	Detail  json.RawMessage `json:"detail,omitempty"` // an object
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

// ActionQuery chooses actions; its zero value, the newest of all.
type ActionQuery struct {
	Before  job.ID // older than this one
	Subject string // of this one only
	Limit   int    // at least 1
}

// Cordon is why a worker takes no jobs until an operator says otherwise.
type Cordon struct {
	At     time.Time `json:"at"` // by the store's clock
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// Load is what a worker has under way.
type Load struct {
	Running  int64 `json:"running"`  // jobs
	Sessions int64 `json:"sessions"` // live ones
}

// Leader is who has a role.
type Leader struct {
	Holder string    `json:"holder"`
	Term   int64     `json:"term"`  // how often the holder has changed
	Since  time.Time `json:"since"` // by the store's clock
	Until  time.Time `json:"until"` // if it says no more
}

// Schema is how far a database has come.
type Schema struct {
	Has   int64 `json:"has"`   // the version that it has, 0: none
	Wants int64 `json:"wants"` // the version that this program is made for
}
