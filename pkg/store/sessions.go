package store

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Sessions stores the place and the end of each session, and its executions. While a session lives, its worker is the
// truth.
type Sessions interface {
	Claims
	// PutSession writes down a session that a worker has opened.
	// job.ErrTooMany if the tenant has most live ones already; 0: it may have any
	// number.
	PutSession(ctx context.Context, tenant string, s job.Session, most int) error
	// ForkSession records a copy of a session, at the same place, and returns it. It returns job.ErrNotFound if the
	// tenant has no such session. The limit most is as in PutSession.
	ForkSession(ctx context.Context, tenant string, parent, id job.ID, most int) (*job.Session, error)
	// ForgetSession removes the record of a session that could not be created.
	ForgetSession(ctx context.Context, id job.ID) error
	// Session returns one; job.ErrNotFound if the tenant has none of that id.
	Session(ctx context.Context, tenant string, id job.ID) (*job.Session, error)
	// ListSessions lists the sessions of a tenant, or of all if it is empty, newest first.
	ListSessions(ctx context.Context, tenant string, live bool, limit int) ([]job.Session, error)
	// EndSession records an end. The first one counts; it reports whether this
	// was it.
	// It is the word of a worker, and counts if that holds the session.
	EndSession(ctx context.Context, id job.ID, worker string, o job.Outcome, message string) (bool, error)
	// LostSessions returns the given sessions that their workers hold in vain: sessions that are over, belong to
	// another worker or were never recorded.
	LostSessions(ctx context.Context, held []HeldSession) ([]HeldSession, error)
	// ReapSessions ends the sessions of workers that were silent for so long.
	ReapSessions(ctx context.Context, silence time.Duration) (int64, error)
	// PutExecute records an execution of a session. Saying it twice is the same
	// as once. Every reader sees it then, but it need not be on disk yet: a crash
	// of the store's machine may take the newest along.
	PutExecute(ctx context.Context, e Executed) error
	// Execution returns one; job.ErrNotFound if no such one of a session of the tenant's is recorded.
	Execution(ctx context.Context, tenant string, session, id job.ID) (Executed, error)
	// Executions lists up to limit executions of a session recorded after the given one, in that order. Executions
	// recorded later always lie after all those listed before.
	Executions(ctx context.Context, tenant string, session, after job.ID, limit int) ([]Executed, error)
}

// HeldSession is a session and the worker that holds it.
type HeldSession struct {
	Session job.ID
	Worker  string
}
