package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/internal/cli/top"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

type batchWatchCmd struct {
	ID       string        `arg:"" help:"Id of the batch."`
	Interval time.Duration `name:"interval" default:"2s" help:"Refresh interval, at least 1s."`
	Once     bool          `name:"once" help:"Print once and exit, as if the output were no terminal."`
}

// Run shows a batch until it is done and the user presses q.
func (c *batchWatchCmd) Run(a *app) error {
	if c.Interval < leastInterval {
		return fmt.Errorf("--interval: %s is less than %s", c.Interval, leastInterval)
	}
	api, err := a.client()
	if err != nil {
		return err
	}
	look := func(ctx context.Context) (*fleet.BatchSummary, error) { return api.BatchSummary(ctx, job.ID(c.ID)) }
	s, err := look(a.ctx) // fail early if the batch does not exist
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(s)
	}
	if c.Once || !show.IsTerminal(a.stdout) || !show.IsTerminal(a.stdin) {
		a.printf("%s\n", strings.Join(top.BatchLines(s), "\n"))
		return nil
	}
	return top.Run(a.ctx, top.Config{Title: "assay batch watch  " + a.URL, Look: top.Batch(look), Every: c.Interval, In: a.stdin, Out: a.stdout})
}
