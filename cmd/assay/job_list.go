package main

import (
	"errors"
	"iter"
	"time"

	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

type jobListCmd struct {
	Limit  int    `default:"20" help:"Most jobs to list."`
	Tenant string `placeholder:"NAME" help:"Only jobs of this tenant (default: all tenants for operators, else your own)."`
	JobFlags
}

// Run lists jobs; with --json one per line.
func (c *jobListCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	n := 0
	list := func(tenant string) iter.Seq2[job.Summary, error] {
		f := c.Filter()
		f.Tenant = tenant
		return api.Jobs(a.ctx, f)
	}
	for j, err := range visible(c.Tenant, list) {
		if err != nil {
			return err
		}
		if err := a.showSummary(j); err != nil {
			return err
		}
		if n++; n >= c.Limit { // looking for one more may take many pages
			return nil
		}
	}
	return nil
}

// visible lists the items of a tenant. An empty tenant means all tenants for operators, and otherwise the caller's.
func visible[T any](tenant string, list func(tenant string) iter.Seq2[T, error]) iter.Seq2[T, error] {
	if tenant != "" {
		return list(tenant)
	}
	return func(yield func(T, error) bool) {
		for item, err := range list(client.AllTenants) {
			if errors.Is(err, job.ErrRefused) {
				list("")(yield)
				return
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

func (a *app) showSummary(j job.Summary) error {
	if a.JSON {
		return a.printJSON(j)
	}
	a.printf("job %s", j.ID)
	if j.Name != "" {
		a.printf(" (%s)", show.Plain(j.Name))
	}
	if j.Tenant != "" {
		a.printf(" of %s", j.Tenant)
	}
	a.printf(": %s", j.State)
	if j.Outcome != "" && j.State == job.Finished {
		a.printf(", %s", j.Outcome)
	}
	if j.Worker != "" {
		a.printf(" on %s", show.Plain(j.Worker))
	}
	a.printf(", submitted %s\n", j.CreatedAt.Local().Format(time.DateTime))
	return nil
}

type jobDeleteCmd struct {
	ID string `arg:"" help:"Id of the job."`
}

// Run erases a job.
func (c *jobDeleteCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	return a.acted(api.DeleteJob(a.ctx, job.ID(c.ID)))
}

// acted prints the result of an action.
func (a *app) acted(done store.Action, err error) error {
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(done)
	}
	a.printf("%s %s: %s\n", done.Action, done.Subject, done.Outcome)
	return nil
}
