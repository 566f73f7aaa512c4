package main

import (
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

type jobListCmd struct {
	Limit   int               `default:"20" help:"How many."`
	State   string            `enum:",queued,dispatched,running,finished,canceled" default:"" placeholder:"STATE" help:"Those that are queued, dispatched, running, finished or canceled."`
	Outcome string            `enum:",${outcomes}" default:"" placeholder:"OUTCOME" help:"Those that ended so, such as failed, timed_out or lost."`
	Batch   string            `placeholder:"ID" help:"Those of a batch."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Those that have all of these labels, their own or their batch's."`
	Since   time.Duration     `placeholder:"2h" help:"Those submitted in so long; none: ever."`

	Failed      bool          `help:"Those that are over and did not succeed."`
	Name        string        `placeholder:"NAME" help:"Those with this name; with a * at its end, those whose name begins so."`
	Image       string        `placeholder:"IMAGE" help:"Those that name this image."`
	Worker      string        `placeholder:"WORKER" help:"Those that run on this worker, or ended there."`
	Message     string        `placeholder:"TEXT" help:"Those whose message has this text, in letters of either case."`
	MinDuration time.Duration `placeholder:"30s" help:"Those that ran so long or longer."`
	MaxDuration time.Duration `placeholder:"1s" help:"Those that ran so long or shorter."`
}

// filter is what the flags ask for.
func (c *jobListCmd) filter() client.JobFilter {
	f := client.JobFilter{State: job.State(c.State), Outcome: job.Outcome(c.Outcome), Batch: job.ID(c.Batch), Labels: c.Label, Failed: c.Failed,
		Image: c.Image, Worker: c.Worker, Text: c.Message, MinDuration: c.MinDuration, MaxDuration: c.MaxDuration}
	if prefix, ok := strings.CutSuffix(c.Name, "*"); ok {
		f.NamePrefix = prefix
	} else {
		f.Name = c.Name
	}
	if c.Since > 0 {
		f.Since = time.Now().Add(-c.Since)
	}
	return f
}

// Run lists jobs: with --json one a line.
func (c *jobListCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	n := 0
	for j, err := range api.Jobs(a.ctx, c.filter()) {
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
	ID string `arg:"" help:"The job."`
}

// Run erases a job.
func (c *jobDeleteCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	done, err := api.DeleteJob(a.ctx, job.ID(c.ID))
	return a.erased(done, err)
}

// erased says what was erased.
func (a *app) erased(done store.Action, err error) error {
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(done)
	}
	a.printf("%s %s: %s\n", done.Action, done.Subject, done.Outcome)
	return nil
}
