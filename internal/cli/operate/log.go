package operate

import (
	"io"
	"slices"
	"time"

	wire "github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/fleet"
)

// Log lists recorded actions.
type Log struct {
	Actor   string    `name:"actor" help:"Only actions of this actor."`
	Action  string    `name:"action" help:"Only this action, such as \"put policy\"."`
	Subject string    `name:"subject" help:"Only actions on this subject, such as a worker, batch or tenant."`
	Tenant  string    `name:"tenant" help:"Only actions on subjects of this tenant."`
	Since   time.Time `name:"since" placeholder:"2026-01-31T12:00:00Z" help:"Only actions at or after this time."`
	Until   time.Time `name:"until" placeholder:"2026-01-31T12:00:00Z" help:"Only actions before this time."`
	Limit   int       `name:"limit" short:"n" default:"20" help:"Most actions to list."`
	Follow  bool      `name:"follow" short:"f" help:"List oldest first, and follow new actions."`
}

// Run lists actions.
func (c *Log) Run(h Host) error {
	dialed, err := h.Dial()
	if err != nil {
		return err
	}
	operators := dialed.Admin()
	q := fleet.ActionQuery{Actor: c.Actor, Action: c.Action, Subject: c.Subject, Tenant: c.Tenant, Since: c.Since, Until: c.Until}
	var found []fleet.Action
	for before := q; len(found) < c.Limit; {
		before.Limit = min(c.Limit-len(found), 1000)
		page, err := operators.Actions(h.Context(), before)
		if err != nil {
			return err
		}
		found = append(found, page.Actions...)
		if before.Before = page.Next; before.Before == "" {
			break
		}
	}
	if c.Follow {
		return c.follow(h, operators, q, found)
	}
	return h.Say(wire.ActionList{Actions: append([]fleet.Action{}, found...)}, func(w io.Writer) error {
		t := show.NewTable(w, "AT", "WHO", "FROM", "ACTION", "SUBJECT", "TENANT", "OUTCOME", "WHY", "DETAIL")
		for _, x := range found {
			t.Row(x.At.UTC().Format(time.RFC3339), actorOf(x), x.Remote, x.Action, x.Subject, x.Tenant, x.Outcome, x.Reason, string(x.Detail))
		}
		return t.End()
	})
}

// follow prints found and later actions, one per line.
func (c *Log) follow(h Host, operators client.Admin, q fleet.ActionQuery, found []fleet.Action) error {
	last := int64(-1)
	for _, x := range slices.Backward(found) {
		if err := c.line(h, x); err != nil {
			return err
		}
		last = max(last, x.Seq)
	}
	for x, err := range operators.Follow(h.Context(), q, last) {
		if err == nil {
			err = c.line(h, x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (*Log) line(h Host, x fleet.Action) error {
	return h.Say(x, func(w io.Writer) error {
		return show.NewTable(w, x.At.UTC().Format(time.RFC3339), actorOf(x), x.Action, x.Subject, x.Tenant, x.Outcome, x.Reason, string(x.Detail)).End()
	})
}

// actorOf returns the actor of an action, with the token.
func actorOf(x fleet.Action) string {
	if x.Token == "" {
		return x.Actor
	}
	return x.Actor + " (" + x.Token + ")"
}
