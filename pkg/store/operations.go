package store

import (
	"context"
	"time"
)

// Operations is the manual changes of operators to a fleet. A method with an Action records it in the transaction of
// the change and fills in At, Outcome and Detail. After an error nothing is recorded.
type Operations interface {
	// Actions lists the recorded actions, newest first.
	Actions(ctx context.Context, q ActionQuery) ([]Action, error)
	// ActionsAfter lists the actions that match q and were committed after a sequence number, in that order. Later
	// commits have higher numbers than all listed actions. ActionsSeq is the last number.
	ActionsAfter(ctx context.Context, seq int64, q ActionQuery) ([]Action, error)
	ActionsSeq(ctx context.Context) (int64, error)
	// ForgetActions removes actions older than age.
	ForgetActions(ctx context.Context, age time.Duration) (int64, error)
	// NoteAction records an action that changed no row, with its outcome.
	NoteAction(ctx context.Context, a *Action) error

	// Cordon keeps a worker from taking jobs, until Uncordon. Its running jobs continue. Both return job.ErrNotFound
	// for an unlisted worker.
	Cordon(ctx context.Context, a *Action, worker string) error
	Uncordon(ctx context.Context, a *Action, worker string) error
	// Confine puts a worker into quarantine for the given time from now on, replacing an earlier Quarantine; Absolve
	// ends a quarantine. Both return job.ErrNotFound as Cordon does.
	Confine(ctx context.Context, a *Action, worker string, d time.Duration) error
	Absolve(ctx context.Context, a *Action, worker string) error
	// Load returns the unfinished work of a worker, from the rows.
	Load(ctx context.Context, worker string) (Load, error)

	// Leader returns the current leader of a role, or job.ErrNotFound.
	Leader(ctx context.Context, role string) (Leader, error)
	// Restored returns the history id of the database if revocations and erasures were last reapplied under another
	// one: the database was restored from a dump, or a standby was promoted. Otherwise, and if the server does not
	// report its history, it returns the empty string. Reapplied records that they were reapplied.
	Restored(ctx context.Context) (history string, err error)
	Reapplied(ctx context.Context, history string) error
	// Schema returns the schema version of this store.
	Schema(ctx context.Context) (Schema, error)
}

// Load is the unfinished work of a worker.
type Load struct {
	Running  int64 // jobs
	Sessions int64 // live ones
	// The earliest started, at most LoadListed of each.
	Jobs         []WorkerJob
	LiveSessions []WorkerSession
}

// LoadListed bounds the lists of a Load.
const LoadListed = 100
