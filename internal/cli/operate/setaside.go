package operate

import (
	"errors"
	"io"
	"time"

	wire "github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// SetAside has the commands for job results that the database rejected.
type SetAside struct {
	List  listAsides `cmd:"" help:"List rejected results, oldest first."`
	Retry retryAside `cmd:"" help:"Record rejected results, after the cause is repaired."`
	Drop  dropAside  `cmd:"" help:"Delete rejected results; their jobs stay as they are."`
}

type listAsides struct{}

// Run lists.
func (listAsides) Run(h Host) error {
	c, err := h.Dial()
	if err != nil {
		return err
	}
	found, err := c.Admin().Asides(h.Context())
	if err != nil {
		return err
	}
	return h.Say(wire.AsideList{SetAside: append([]fleet.Aside{}, found...)}, func(w io.Writer) error {
		t := show.NewTable(w, "ID", "AT", "TENANT", "JOB", "BATCH", "CALL", "OUTCOME", "ENDED", "BYTES", "SQLSTATE", "ERROR")
		for _, a := range found {
			t.Row(a.ID, a.At.UTC().Format(time.RFC3339), a.Tenant, a.Job, a.Batch, a.Call, a.Outcome, a.Ended, a.Bytes, a.SQLState, a.Error)
		}
		return t.End()
	})
}

// chosen is the rows that a command changes.
type chosen struct {
	IDs    []string `arg:"" optional:"" name:"id" help:"Ids, as in the list."`
	All    bool     `name:"all" help:"All rejected results."`
	Reason string   `name:"reason" short:"m" help:"Reason for the audit log."`
}

// each calls do for each chosen row and prints the records. It continues after errors and returns them joined.
func (c *chosen) each(h Host, do func(client.Admin, job.ID) (fleet.Action, error)) error {
	if c.All == (len(c.IDs) > 0) {
		return errors.New("name either ids or --all")
	}
	dialed, err := h.Dial()
	if err != nil {
		return err
	}
	operators := dialed.Admin()
	if c.All {
		all, err := operators.Asides(h.Context())
		if err != nil {
			return err
		}
		for _, a := range all {
			c.IDs = append(c.IDs, string(a.ID))
		}
	}
	var errs []error
	for _, id := range c.IDs {
		done, err := do(operators, job.ID(id))
		if err == nil {
			err = h.Say(done, func(w io.Writer) error { return show.NewTable(w, done.Action, done.Subject, done.Outcome).End() })
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type retryAside struct{ chosen }

// Run records.
func (c *retryAside) Run(h Host) error {
	return c.each(h, func(f client.Admin, id job.ID) (fleet.Action, error) { return f.RetryAside(h.Context(), id, c.Reason) })
}

type dropAside struct{ chosen }

// Run forgets.
func (c *dropAside) Run(h Host) error {
	return c.each(h, func(f client.Admin, id job.ID) (fleet.Action, error) { return f.DropAside(h.Context(), id, c.Reason) })
}
