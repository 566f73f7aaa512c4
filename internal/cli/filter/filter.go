// Package filter has the flags that select jobs.
package filter

import (
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// Jobs selects jobs that match all flags.
type Jobs struct {
	State   string            `enum:",queued,dispatched,running,finished,canceled" default:"" placeholder:"STATE" help:"Those that are queued, dispatched, running, finished or canceled."`
	Outcome string            `enum:",${outcomes}" default:"" placeholder:"OUTCOME" help:"Those that ended so, such as failed, timed_out or lost."`
	Batch   string            `placeholder:"ID" help:"Those of a batch."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Those that have all of these labels, their own or their batch's."`
	Since   time.Duration     `placeholder:"2h" help:"Those submitted in so long; none: ever."`

	Failed      bool          `help:"Those that are over and did not succeed."`
	Failure     string        `enum:",${failures}" default:"" placeholder:"CLASS" help:"Only jobs of this failure class: the outcome or, if tests failed, that of the first failed case."`
	Name        string        `placeholder:"NAME" help:"Those with this name; with a * at its end, those whose name begins so."`
	Image       string        `placeholder:"IMAGE" help:"Those that name this image."`
	Worker      string        `placeholder:"WORKER" help:"Those that run on this worker, or ended there."`
	Message     string        `placeholder:"TEXT" help:"Those whose message has this text, in letters of either case."`
	MinDuration time.Duration `placeholder:"30s" help:"Those that ran so long or longer."`
	MaxDuration time.Duration `placeholder:"1s" help:"Those that ran so long or shorter."`
}

// Filter returns the flags as a filter.
func (c *Jobs) Filter() client.JobFilter {
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
