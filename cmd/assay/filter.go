package main

import (
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// JobFlags selects jobs that match all flags.
type JobFlags struct {
	State   string            `enum:",queued,dispatched,running,finished,canceled" default:"" placeholder:"STATE" help:"Only jobs in this state: queued, dispatched, running, finished or canceled."`
	Outcome string            `enum:",${outcomes}" default:"" placeholder:"OUTCOME" help:"Only jobs with this outcome, such as failed, timed_out or lost."`
	Batch   string            `placeholder:"ID" help:"Only jobs of this batch."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Only jobs with all of these labels, on the job or its batch."`
	Since   time.Duration     `placeholder:"2h" help:"Only jobs submitted within this time (default: no limit)."`

	Failed      bool          `help:"Only finished jobs that did not succeed."`
	Failure     string        `enum:",${failures}" default:"" placeholder:"CLASS" help:"Only jobs of this failure class: the outcome, or for failed tests the outcome of the first failed case."`
	Name        string        `placeholder:"NAME" help:"Only jobs with this name; a trailing * matches a prefix."`
	Image       string        `placeholder:"IMAGE" help:"Only jobs with this image."`
	Worker      string        `placeholder:"WORKER" help:"Only jobs that run or ended on this worker."`
	Message     string        `placeholder:"TEXT" help:"Only jobs whose message contains this text; case does not matter."`
	MinDuration time.Duration `placeholder:"30s" help:"Only jobs that ran at least this long."`
	MaxDuration time.Duration `placeholder:"1s" help:"Only jobs that ran at most this long."`
}

// Filter returns the flags as a filter.
func (c *JobFlags) Filter() client.JobFilter {
	f := client.JobFilter{State: job.State(c.State), Outcome: job.Outcome(c.Outcome), Batch: job.ID(c.Batch), Labels: c.Label, Failed: c.Failed, Failure: job.Outcome(c.Failure),
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
