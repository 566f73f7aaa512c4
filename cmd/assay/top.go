package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/internal/cli/top"
	"github.com/assay-run/assay/pkg/client"
)

// leastInterval is the shortest interval, because dispatchers do not refresh more often.
const leastInterval = time.Second

type topCmd struct {
	Interval time.Duration `name:"interval" default:"2s" help:"Refresh interval, at least 1s."`
	Once     bool          `name:"once" help:"Print once and exit, as if the output were no terminal."`
}

// Run shows the fleet until the user presses q.
func (c *topCmd) Run(a *app) error {
	if c.Interval < leastInterval {
		return fmt.Errorf("--interval: %s is less than %s", c.Interval, leastInterval)
	}
	fleet, err := a.client()
	if err != nil {
		return err
	}
	if a.JSON || c.Once || !show.IsTerminal(a.stdout) || !show.IsTerminal(a.stdin) {
		return c.once(a, fleet)
	}
	return top.Run(a.ctx, top.Config{Title: "assay top  " + a.URL, Look: top.Fleet(fleet.Now), Every: c.Interval, In: a.stdin, Out: a.stdout})
}

func (c *topCmd) once(a *app, fleet *client.Client) error {
	now, err := fleet.Now(a.ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(now)
	}
	a.printf("%s\n", strings.Join(top.Lines(now, nil), "\n"))
	return nil
}
