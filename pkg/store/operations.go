package store

import (
	"context"
	"time"
)

// Operations is what operators do to a fleet by hand. A method that is given an Action
// writes it down in the transaction in which it does what it says, and fills in what came
// of it: At, Outcome and Detail. After an error nothing is written.
type Operations interface {
	// Actions lists what was done, newest first.
	Actions(ctx context.Context, q ActionQuery) ([]Action, error)
	// ActionsAfter lists those to which q applies and that were committed after the one of a number, in that order. What
	// is committed later has a higher number than all that was listed. ActionsSeq is the number of the last.
	ActionsAfter(ctx context.Context, seq int64, q ActionQuery) ([]Action, error)
	ActionsSeq(ctx context.Context) (int64, error)
	// ForgetActions removes those that were done longer than age ago.
	ForgetActions(ctx context.Context, age time.Duration) (int64, error)
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
	// Restored returns the history of the database if revocations and erasures were last made
	// again in another one: it was restored from a dump, or a standby was promoted. Otherwise, and
	// if the server does not tell its history, it returns the empty string. Reapplied notes that
	// they were made again.
	Restored(ctx context.Context) (history string, err error)
	Reapplied(ctx context.Context, history string) error
	// Schema says how far the tables of this store have come.
	Schema(ctx context.Context) (Schema, error)
}

// Load is what a worker has under way.
type Load struct {
	Running  int64 // jobs
	Sessions int64 // live ones
	// The ones that began first, LoadListed at most of each.
	Jobs         []WorkerJob
	LiveSessions []WorkerSession
}

// LoadListed bounds the lists of a Load.
const LoadListed = 100
