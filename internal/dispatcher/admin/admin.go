// Package admin implements the operators' actions on a fleet. It checks requests, changes the store, notifies
// dispatchers and workers, and records each action. It also applies the file of tenants.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Store is the part of the store that the actions use.
type Store interface {
	store.Steering
	store.Eraser
	store.Transfers

	Actions(ctx context.Context, q store.ActionQuery) ([]store.Action, error)
	NoteAction(ctx context.Context, a *store.Action) error

	Workers(ctx context.Context, seenWithin time.Duration) ([]store.Worker, error)
	Cordon(ctx context.Context, a *store.Action, worker string) error
	Uncordon(ctx context.Context, a *store.Action, worker string) error
	Confine(ctx context.Context, a *store.Action, worker string, d time.Duration) error
	Absolve(ctx context.Context, a *store.Action, worker string) error
	Load(ctx context.Context, worker string) (store.Load, error)

	Fleet(ctx context.Context) (string, error)
	Leader(ctx context.Context, role string) (store.Leader, error)
	Restored(ctx context.Context) (history string, err error)
	Reapplied(ctx context.Context, history string) error
	Schema(ctx context.Context) (store.Schema, error)
	Reports(ctx context.Context, age time.Duration) ([]store.SourceReport, error)
	Usage(ctx context.Context) (map[string]nouns.Usage, error)
	Database(ctx context.Context) (nouns.Database, error)

	Tenant(ctx context.Context, name string) (store.Tenant, error)
	Tenants(ctx context.Context) ([]store.Tenant, error)
	Grant(ctx context.Context, a *store.Action, t store.Tenant, only store.GrantIf) (store.Tenant, error)
	Secrets(ctx context.Context, tenant string) ([]store.StoredSecret, error)

	PutKey(ctx context.Context, a *store.Action, k store.LiveKey) (store.Key, error)
	Keys(ctx context.Context, tenant string, before job.ID, limit int) ([]store.Key, error)
	Key(ctx context.Context, tenant string, id job.ID) (store.Key, error)
	RevokeKey(ctx context.Context, a *store.Action, id job.ID) (store.Key, error)

	Asides(ctx context.Context, after job.ID, limit int) ([]store.Aside, error)
	RetryAside(ctx context.Context, a *store.Action, id job.ID) error
	DropAside(ctx context.Context, a *store.Action, id job.ID) error

	Job(ctx context.Context, tenant string, id job.ID) (*job.Job, error)
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
	Cancel(ctx context.Context, id job.ID) (store.Canceling, error)
	CancelBatch(ctx context.Context, batch job.ID) ([]store.Canceling, error)
}

// Fleet receives changes to the fleet. *dispatcher.Dispatcher implements it.
type Fleet interface {
	// FleetChanged announces that the state of workers has changed.
	FleetChanged(ctx context.Context)
	// Sweep removes objects that no record names; with dry it only counts them.
	Sweep(ctx context.Context, dry bool) (api.SweepReport, error)
}

// Admin performs the actions. All fields are required unless noted.
type Admin struct {
	Store   Store
	Objects Objects
	Secrets Secrets
	Fleet   Fleet                                        // optional: dispatchers read changes within seconds anyway
	Wake    func()                                       // notifies the scheduler that other jobs may run
	Stop    func(worker string, l store.LeaseRef) error  // requests a worker to stop an attempt
	Pool    func(ctx context.Context, name string) error // rejects unknown pools; optional
	Version string                                       // of this program
	Quotas  nouns.QuotaDefaults                          // of tenants whose ceilings set none
	Log     *slog.Logger
}

// Actor is the sender of an administrative request.
type Actor struct {
	Name   string
	Token  string // distinguishes the tokens of one name, without revealing them
	Remote string // the client's address; optional
}

// Limits of requests.
const (
	maxReason     = 1000
	maxQuarantine = 30 * 24 * time.Hour
	maxPage       = 1000
	page          = 100
)

func checkReason(reason string) error {
	if len(reason) > maxReason {
		return job.Invalid("reason", "has %d bytes; the most is %d", len(reason), maxReason)
	}
	return nil
}

// act performs an action like Do.
func (a *Admin) act(ctx context.Context, who Actor, action, subject, reason string, do func(*store.Action) error) (*store.Action, error) {
	return a.Do(ctx, who, store.Action{Action: action, Subject: subject, Reason: reason}, do)
}

// Do performs an action by calling do, and returns its record. of has the action, its subject, tenant and reason. It
// records failed actions, too, but not invalid requests. It returns job.ErrInvalid for a reason above maxReason.
func (a *Admin) Do(ctx context.Context, who Actor, of store.Action, do func(*store.Action) error) (*store.Action, error) {
	if err := checkReason(of.Reason); err != nil {
		return nil, err
	}
	of.ID, of.Actor, of.Token, of.Remote = job.NewID(), who.Name, who.Token, who.Remote
	done := &of
	if err := do(done); err != nil {
		a.failed(ctx, done, err)
		return nil, fmt.Errorf("%s %.80s: %w", of.Action, of.Subject, err)
	}
	a.Log.InfoContext(ctx, "operator action", "actor", who.Name, "token", who.Token, "remote", who.Remote, "action", of.Action, "subject", of.Subject,
		"tenant", of.Tenant, "reason", of.Reason, "outcome", done.Outcome)
	return done, nil
}

// Noted records an action that was done without a record.
func (a *Admin) Noted(ctx context.Context, who Actor, of store.Action) error {
	_, err := a.Do(ctx, who, of, func(done *store.Action) error {
		done.Outcome = store.ActionDone
		return a.Store.NoteAction(ctx, done)
	})
	return err
}

// failed records a failed action. It records no invalid requests, and no failures while the store was unavailable,
// since their outcome is unknown.
func (a *Admin) failed(ctx context.Context, act *store.Action, cause error) {
	a.Log.WarnContext(ctx, "operator action failed", "actor", act.Actor, "action", act.Action, "subject", act.Subject, "error", cause)
	invalid := errors.Is(cause, job.ErrInvalid) && !errors.Is(cause, job.ErrTooMany)
	if invalid || errors.Is(cause, job.ErrUnavailable) || ctx.Err() != nil {
		return
	}
	act.Outcome = store.ActionFailed
	act.Before, act.After = nil, nil
	act.Detail, _ = json.Marshal(map[string]string{"error": cause.Error()}) // strings always marshal
	if err := a.Store.NoteAction(ctx, act); err != nil {
		a.Log.WarnContext(ctx, "failed operator action not recorded", "error", err)
	}
}

func (a *Admin) changed(ctx context.Context) {
	if a.Fleet != nil {
		a.Fleet.FleetChanged(ctx)
	}
}

// Actions returns a page of the recorded actions. Limit 0 means the default page size.
func (a *Admin) Actions(ctx context.Context, q store.ActionQuery) (api.ActionList, error) {
	switch {
	case q.Limit < 0 || q.Limit > maxPage:
		return api.ActionList{}, job.Invalid("limit", "must be 1 to %d", maxPage)
	case q.Limit == 0:
		q.Limit = page
	}
	as, err := a.Store.Actions(ctx, q)
	if err != nil {
		return api.ActionList{}, fmt.Errorf("list actions: %w", err)
	}
	out := api.ActionList{Actions: append([]store.Action{}, as...)}
	if len(as) == q.Limit {
		out.Next = as[len(as)-1].ID
	}
	return out, nil
}

// Leader returns the dispatcher that schedules and reaps, or job.ErrNotFound.
func (a *Admin) Leader(ctx context.Context) (store.Leader, error) {
	return a.Store.Leader(ctx, store.DispatchRole)
}

// Versions returns the versions of this dispatcher, the schema and the connected workers.
func (a *Admin) Versions(ctx context.Context) (api.FleetVersion, error) {
	out := api.FleetVersion{Dispatcher: a.Version, Workers: map[string]int{}}
	var err error
	if out.Schema, err = a.Store.Schema(ctx); err != nil {
		return out, fmt.Errorf("read the schema's version: %w", err)
	}
	ws, err := a.Store.Workers(ctx, fleet.Connected)
	if err != nil {
		return out, fmt.Errorf("list workers: %w", err)
	}
	for _, w := range ws {
		out.Workers[w.Version]++
	}
	return out, nil
}
