package main

import (
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

type jobListCmd struct {
	Limit   int               `default:"20" help:"How many."`
	State   string            `enum:",queued,dispatched,running,finished,canceled" default:"" placeholder:"STATE" help:"Those that are queued, dispatched, running, finished or canceled."`
	Outcome string            `enum:",${outcomes}" default:"" placeholder:"OUTCOME" help:"Those that ended so, such as failed, timed_out or lost."`
	Batch   string            `placeholder:"ID" help:"Those of a batch."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Those that have all of these labels, their own or their batch's."`
	Since   time.Duration     `placeholder:"2h" help:"Those submitted in so long; none: ever."`
}

// Run lists jobs: with --json one a line.
func (c *jobListCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	f := client.JobFilter{State: job.State(c.State), Outcome: job.Outcome(c.Outcome), Batch: job.ID(c.Batch), Labels: c.Label}
	if c.Since > 0 {
		f.Since = time.Now().Add(-c.Since)
	}
	n := 0
	for j, err := range api.Jobs(a.ctx, f) {
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
