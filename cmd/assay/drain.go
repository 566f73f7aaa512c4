package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/client"
)

// errNoWorkers is about a command that chooses no workers.
var errNoWorkers = errors.New("name workers, or select them with --pool, --version, --label or --state")

type workerCordonCmd struct {
	Workers []string `arg:"" optional:"" help:"Workers to change."`
	choosing
	DryRun bool `name:"dry-run" help:"List the workers and change nothing."`
	reasoned
}

// Run cordons.
func (c *workerCordonCmd) Run(a *app) error {
	return a.onWorkers(c.choosing, c.Workers, c.DryRun, c.Reason, cordoned, client.Admin.CordonAll)
}

type workerUncordonCmd workerCordonCmd

// Run uncordons.
func (c *workerUncordonCmd) Run(a *app) error {
	return a.onWorkers(c.choosing, c.Workers, c.DryRun, c.Reason, "uncordoned", client.Admin.UncordonAll)
}

// bulk is CordonAll or UncordonAll of client.Admin.
type bulk func(f client.Admin, ctx context.Context, q api.WorkersRequest) (api.WorkersReport, error)

// onWorkers sends one request about all chosen workers, and prints them.
func (a *app) onWorkers(c choosing, names []string, dry bool, reason, done string, do bulk) error {
	s := c.selector(names...)
	if s.Empty() {
		return errNoWorkers
	}
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	r, err := do(fleet, a.ctx, api.WorkersRequest{Workers: s, DryRun: dry, Reason: reason})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(r)
	}
	for _, w := range r.Workers {
		a.printf("%s\n", show.Plain(w))
	}
	if dry {
		a.printf("%d workers would be %s\n", len(r.Workers), done)
		return nil
	}
	a.printf("%d workers are %s; %d of them changed\n", len(r.Workers), done, r.Changed)
	return nil
}

// draining is the flags of both drains.
type draining struct {
	Wait  bool          `name:"wait" help:"Wait until no job and no session is left on the workers."`
	After time.Duration `name:"hand-back-after" placeholder:"5m" help:"With --wait: requeue the jobs that still run after this time (default: never)."`
	Every time.Duration `name:"every" default:"2s" hidden:""`
	reasoned
}

type workerDrainCmd struct {
	Workers []string `arg:"" optional:"" help:"Workers to change."`
	choosing
	DryRun bool `name:"dry-run" help:"List the workers with their jobs and sessions, and change nothing."`
	draining
}

// Run cordons the chosen workers and waits for them.
func (c *workerDrainCmd) Run(a *app) error {
	s := c.selector(c.Workers...)
	if s.Empty() {
		return errNoWorkers
	}
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	r, err := fleet.CordonAll(a.ctx, api.WorkersRequest{Workers: s, DryRun: c.DryRun, Reason: c.Reason})
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.drain(a, fleet, r.Workers, false, "")
	}
	return c.drain(a, fleet, r.Workers, c.Wait, cordoned)
}

type adminDrainCmd struct {
	Worker string `arg:"" help:"Worker, as in assay worker list."`
	draining
}

// Run cordons a worker and waits for it. Interrupted, it leaves the worker cordoned.
func (c *adminDrainCmd) Run(a *app) error {
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	if _, err := fleet.Cordon(a.ctx, c.Worker, c.Reason); err != nil {
		return err
	}
	return c.drain(a, fleet, []string{c.Worker}, c.Wait, cordoned)
}

const cordoned = "cordoned"

// drain waits until nothing runs on the workers, or only prints what does. state is what they are; empty: as they report.
func (c *draining) drain(a *app, fleet client.Admin, workers []string, wait bool, state string) error {
	began := time.Now()
	settled := 0 // looks in a row that found nothing: a claim may have been on its way
	for {
		all := make([]api.WorkerStatus, len(workers))
		left := int64(0)
		for i, w := range workers {
			var err error
			if all[i], err = fleet.Worker(a.ctx, w); err != nil {
				return err
			}
			left += all[i].Running + all[i].Sessions
			if c.After > 0 && wait && all[i].Running > 0 && time.Since(began) >= c.After {
				q := api.RequeueRequest{Worker: w, Reason: "the worker is drained" + because(c.Reason)}
				if _, err := fleet.Requeue(a.ctx, q); err != nil {
					return err
				}
			}
		}
		if settled++; left > 0 {
			settled = 0
		}
		if !wait || settled == 2 {
			return report(a, all, state)
		}
		if !a.JSON && settled == 0 {
			waitsFor(a.stderr, all)
		}
		if err := pause.For(a.ctx, c.Every); err != nil {
			return err
		}
	}
}

func report(a *app, all []api.WorkerStatus, state string) error {
	if a.JSON {
		if len(all) == 1 {
			return a.printJSON(all[0])
		}
		return a.printJSON(all)
	}
	for _, s := range all {
		is := cmp.Or(state, string(s.Worker.State()))
		if s.Running+s.Sessions == 0 {
			a.printf("%s is %s and empty\n", show.Plain(s.Worker.ID), is)
		} else {
			a.printf("%s is %s; %d jobs and %d sessions are left\n", show.Plain(s.Worker.ID), is, s.Running, s.Sessions)
		}
	}
	for _, s := range all {
		for _, line := range things(s) {
			a.printf("  %s\n", line)
		}
	}
	return nil
}

// named bounds the jobs and the sessions of one worker that are printed.
const named = 5

// things lists the jobs and sessions that keep a worker from being empty, the oldest first.
func things(s api.WorkerStatus) (lines []string) {
	for _, j := range s.Jobs[:min(len(s.Jobs), named)] {
		lines = append(lines, fmt.Sprintf("job %s of %s for %s", j.ID, show.Plain(j.Tenant), time.Since(j.StartedAt).Round(time.Second)))
	}
	for _, l := range s.LiveSessions[:min(len(s.LiveSessions), named)] {
		lines = append(lines, fmt.Sprintf("session %s of %s for %s", l.ID, show.Plain(l.Tenant), time.Since(l.CreatedAt).Round(time.Second)))
	}
	return lines
}

// waitsFor prints what a drain waits for.
func waitsFor(w io.Writer, all []api.WorkerStatus) {
	for _, s := range all {
		if s.Running+s.Sessions == 0 {
			continue
		}
		fmt.Fprintf(w, "%s: %d jobs and %d sessions left", show.Plain(s.Worker.ID), s.Running, s.Sessions)
		if lines := things(s); len(lines) > 0 {
			fmt.Fprintf(w, ": %s", strings.Join(lines, ", "))
		}
		fmt.Fprintln(w)
	}
}
