package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/operate"
	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// adminCmd has the operators' commands.
type adminCmd struct {
	Log          operate.Log          `cmd:"" help:"Who did what, newest first."`
	Leader       adminLeaderCmd       `cmd:"" help:"Which dispatcher schedules and reaps."`
	Version      adminVersionCmd      `cmd:"" help:"Which programs the fleet consists of, and its schema."`
	Cordon       adminCordonCmd       `cmd:"" help:"Keep a worker from taking jobs; what it runs goes on."`
	Uncordon     adminUncordonCmd     `cmd:"" help:"Let a worker take jobs again."`
	Drain        adminDrainCmd        `cmd:"" help:"Cordon a worker and say when nothing runs on it any more."`
	Quarantine   adminQuarantineCmd   `cmd:"" help:"Keep a worker from taking jobs for a while; it then tries one at a time."`
	Unquarantine adminUnquarantineCmd `cmd:"" help:"End a worker's quarantine, whoever began it."`
	Requeue      adminRequeueCmd      `cmd:"" help:"Have jobs run elsewhere, or at once, at no cost to them."`
	Pause        adminPauseCmd        `cmd:"" help:"Hold back what waits of a batch or a tenant, or a pool's workers; alone, list what is paused."`
	Resume       adminResumeCmd       `cmd:"" help:"End a pause."`
	Tenant       adminTenantCmd       `cmd:"" help:"Show what a tenant is granted, or replace some of it."`
	SetAside     operate.SetAside     `cmd:"" name:"set-aside" help:"List, retry or drop ends of jobs that the database refused."`
	Verify       adminVerifyCmd       `cmd:"" help:"Compare the counters of a batch, or of all that are not over, with their rows."`
	Sweep        adminSweepCmd        `cmd:"" help:"Remove what attempts stored and no record names."`
}

// reasoned is the flag of every command that changes something.
type reasoned struct {
	Reason string `name:"reason" short:"m" help:"Why: it is kept with the record of it."`
}

// operator is a client of the operators' part of the API.
func (a *app) operator() (client.Admin, error) {
	c, err := a.client()
	if err != nil {
		return client.Admin{}, err
	}
	return c.Admin(), nil
}

// act runs an operator's action and prints the result.
func (a *app) act(do func(client.Admin) (store.Action, error)) error {
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	return a.acted(do(fleet))
}

// because formats a reason as a suffix.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

type adminLeaderCmd struct{}

// Run prints the leader.
func (adminLeaderCmd) Run(a *app) error {
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	l, err := fleet.Leader(a.ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(l)
	}
	a.printf("%s leads since %s, term %d\n", l.Holder, l.Since.UTC().Format(time.RFC3339), l.Term)
	return nil
}

type adminVersionCmd struct{}

// Run prints the versions of the fleet's programs.
func (adminVersionCmd) Run(a *app) error {
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	v, err := fleet.Version(a.ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(v)
	}
	a.printf("dispatcher %s\nschema %d, and the dispatcher needs %d\n", v.Dispatcher, v.Schema.Has, v.Schema.Wants)
	for _, version := range slices.Sorted(maps.Keys(v.Workers)) {
		a.printf("workers %s: %d\n", version, v.Workers[version])
	}
	return nil
}

type adminCordonCmd struct {
	Worker string `arg:"" help:"Its name, as in assay worker list."`
	reasoned
}

// Run cordons a worker.
func (c *adminCordonCmd) Run(a *app) error {
	return a.act(func(f client.Admin) (store.Action, error) { return f.Cordon(a.ctx, c.Worker, c.Reason) })
}

type adminUncordonCmd struct {
	Worker string `arg:"" help:"Its name, as in assay worker list."`
	reasoned
}

// Run uncordons a worker.
func (c *adminUncordonCmd) Run(a *app) error {
	return a.act(func(f client.Admin) (store.Action, error) { return f.Uncordon(a.ctx, c.Worker, c.Reason) })
}

type adminQuarantineCmd struct {
	Worker string        `arg:"" help:"Its name, as in assay worker list."`
	For    time.Duration `name:"for" default:"10m" help:"How long, from now on."`
	reasoned
}

// Run quarantines a worker.
func (c *adminQuarantineCmd) Run(a *app) error {
	q := api.QuarantineRequest{Reason: c.Reason, For: job.Duration(c.For)}
	return a.act(func(f client.Admin) (store.Action, error) { return f.Quarantine(a.ctx, c.Worker, q) })
}

type adminUnquarantineCmd struct {
	Worker string `arg:"" help:"Its name, as in assay worker list."`
	reasoned
}

// Run ends a quarantine.
func (c *adminUnquarantineCmd) Run(a *app) error {
	return a.act(func(f client.Admin) (store.Action, error) { return f.Unquarantine(a.ctx, c.Worker, c.Reason) })
}

type adminDrainCmd struct {
	Worker string        `arg:"" help:"Its name, as in assay worker list."`
	Wait   bool          `name:"wait" help:"Until nothing runs on it any more."`
	After  time.Duration `name:"hand-back-after" placeholder:"5m" help:"With --wait: have what still runs then run elsewhere."`
	Every  time.Duration `name:"every" default:"2s" hidden:""`
	reasoned
}

// Run cordons a worker and waits until it is idle. After an interrupt the worker stays cordoned.
func (c *adminDrainCmd) Run(a *app) error {
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	if _, err := fleet.Cordon(a.ctx, c.Worker, c.Reason); err != nil {
		return err
	}
	began := time.Now()
	settled := 0 // consecutive checks without work: a claim may have been in transit
	for {
		last, err := fleet.Worker(a.ctx, c.Worker)
		if err != nil {
			return err
		}
		if settled++; last.Running+last.Sessions > 0 {
			settled = 0
		}
		if !c.Wait || settled == 2 {
			return c.report(a, last)
		}
		if !a.JSON && settled == 0 {
			fmt.Fprintf(a.stderr, "%s: %d jobs and %d sessions left\n", c.Worker, last.Running, last.Sessions)
		}
		if c.After > 0 && last.Running > 0 && time.Since(began) >= c.After {
			q := api.RequeueRequest{Worker: c.Worker, Reason: "the worker is drained" + because(c.Reason)}
			if _, err := fleet.Requeue(a.ctx, q); err != nil {
				return err
			}
		}
		if err := pause.For(a.ctx, c.Every); err != nil {
			return err
		}
	}
}

func (c *adminDrainCmd) report(a *app, s api.WorkerStatus) error {
	switch {
	case a.JSON:
		return a.printJSON(s)
	case s.Running+s.Sessions == 0:
		a.printf("%s is cordoned and empty\n", c.Worker)
	default:
		a.printf("%s is cordoned; %d jobs and %d sessions are left\n", c.Worker, s.Running, s.Sessions)
	}
	return nil
}
