// Package admin is what operators do to a fleet by hand: it judges what they ask for, has
// the store do it, tells whom it concerns, and leaves a record of it.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/fleet"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Store is what the actions are done to.
type Store interface {
	store.Operations
	store.Steering
	store.Keys
	store.Tenants
	store.Eraser
	store.Asides
	Cancel(ctx context.Context, id job.ID) (store.Canceling, error)
	CancelBatch(ctx context.Context, batch job.ID) ([]store.Canceling, error)
	store.Health
	Job(ctx context.Context, tenant string, id job.ID) (*job.Job, error)
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
	Workers(ctx context.Context, seenWithin time.Duration) ([]store.Worker, error)
}

// Fleet is told what was done; *dispatcher.Dispatcher is one.
type Fleet interface {
	// FleetChanged says that what holds for workers is another.
	FleetChanged(ctx context.Context)
	// Sweep removes objects that no record names; dry: it only counts them.
	Sweep(ctx context.Context, dry bool) (api.SweepReport, error)
}

// Admin acts. All is needed, unless it says otherwise.
type Admin struct {
	Store   Store
	Objects Objects
	Fleet   Fleet                                        // optional: dispatchers then find out by themselves, in seconds
	Wake    func()                                       // says that what may run is another
	Stop    func(worker string, l store.LeaseRef) error  // tells a worker to stop an attempt
	Pool    func(ctx context.Context, name string) error // refuses the name of a pool that there is not; optional
	Version string                                       // of this program
	Quotas  nouns.QuotaDefaults                          // of tenants whose ceilings have none
	Log     *slog.Logger
}

// Who acts.
type Who struct {
	Name   string
	Token  string // tells the tokens of one name apart, and does not reveal them
	Remote string // the address that is asked from; optional
}

// Limits of what is asked for.
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

// act does one action and returns its record. What fails leaves a record, too, if the store
// can be reached.
func (a *Admin) act(ctx context.Context, who Who, action, subject, reason string, do func(*store.Action) error) (*store.Action, error) {
	return a.Do(ctx, who, store.Action{Action: action, Subject: subject, Reason: reason}, do)
}

// Do does what who asks for, and returns the record of it, which begins as what is given: what is done to what, whose that is,
// and why. What is wrong with the request itself leaves no record: nothing was tried.
func (a *Admin) Do(ctx context.Context, who Who, of store.Action, do func(*store.Action) error) (*store.Action, error) {
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

// Noted writes down what was done already, which no record is made of by itself.
func (a *Admin) Noted(ctx context.Context, who Who, of store.Action) error {
	_, err := a.Do(ctx, who, of, func(done *store.Action) error {
		done.Outcome = store.ActionDone
		return a.Store.NoteAction(ctx, done)
	})
	return err
}

// failed writes down that an action came to nothing. Whether it did is not known where the
// store was away.
func (a *Admin) failed(ctx context.Context, act *store.Action, cause error) {
	a.Log.WarnContext(ctx, "operator action failed", "actor", act.Actor, "action", act.Action, "subject", act.Subject, "error", cause)
	invalid := errors.Is(cause, job.ErrInvalid) && !errors.Is(cause, job.ErrTooMany)
	if invalid || errors.Is(cause, job.ErrUnavailable) || ctx.Err() != nil {
		return
	}
	act.Outcome = store.ActionFailed
	act.Before, act.After = nil, nil
	act.Detail, _ = json.Marshal(map[string]string{"error": cause.Error()}) // text always marshals
	if err := a.Store.NoteAction(ctx, act); err != nil {
		a.Log.WarnContext(ctx, "failed operator action not recorded", "error", err)
	}
}

func (a *Admin) changed(ctx context.Context) {
	if a.Fleet != nil {
		a.Fleet.FleetChanged(ctx)
	}
}

// Actions is a page of what was done. Limit 0 is a page of the usual size.
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

// Leader says which dispatcher schedules and reaps.
func (a *Admin) Leader(ctx context.Context) (store.Leader, error) {
	return a.Store.Leader(ctx, store.DispatchRole)
}

// Versions says which programs the fleet consists of.
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
