package main

import (
	"time"

	"github.com/assay-run/assay/internal/cli/filter"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

type jobListCmd struct {
	Limit int `default:"20" help:"Most jobs to list."`
	filter.Jobs
}

// Run lists jobs; with --json one per line.
func (c *jobListCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	n := 0
	for j, err := range api.Jobs(a.ctx, c.Filter()) {
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

func (a *app) showSummary(j job.Summary) error {
	if a.JSON {
		return a.printJSON(j)
	}
	a.printf("job %s", j.ID)
	if j.Name != "" {
		a.printf(" (%s)", j.Name)
	}
	a.printf(": %s", j.State)
	if j.Outcome != "" && j.State == job.Finished {
		a.printf(", %s", j.Outcome)
	}
	if j.Worker != "" {
		a.printf(" on %s", j.Worker)
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
