package main

import (
	"maps"
	"slices"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/operate"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// adminCmd has the operators' commands.
type adminCmd struct {
	Log          operate.Log          `cmd:"" help:"List operator actions, newest first."`
	Leader       adminLeaderCmd       `cmd:"" help:"Show the dispatcher that schedules and reaps."`
	WhySlow      adminWhySlowCmd      `cmd:"" name:"why-slow" help:"Show why the fleet is slow: a verdict and its figures."`
	Version      adminVersionCmd      `cmd:"" help:"Show the versions of the dispatcher, the schema and the workers."`
	Cordon       adminCordonCmd       `cmd:"" help:"Keep a worker from taking jobs; running jobs continue."`
	Uncordon     adminUncordonCmd     `cmd:"" help:"Let a worker take jobs again."`
	Drain        adminDrainCmd        `cmd:"" help:"Cordon a worker; with --wait, wait until it is idle."`
	Quarantine   adminQuarantineCmd   `cmd:"" help:"Keep a worker from taking jobs for a while; it returns on probation, one job at a time."`
	Unquarantine adminUnquarantineCmd `cmd:"" help:"End a worker's quarantine, manual or automatic."`
	Requeue      adminRequeueCmd      `cmd:"" help:"Requeue jobs without using up their attempts."`
	Pause        adminPauseCmd        `cmd:"" help:"Pause a batch, a tenant or a pool; without flags, list the pauses."`
	Resume       adminResumeCmd       `cmd:"" help:"End a pause."`
	Tenant       adminTenantsCmd      `cmd:"" help:"Override a tenant's grants, or move it to another fleet."`
	SetAside     operate.SetAside     `cmd:"" name:"set-aside" help:"Manage job results that the database rejected."`
	Verify       adminVerifyCmd       `cmd:"" help:"Compare the counters of batches with their job rows."`
	Sweep        adminSweepCmd        `cmd:"" help:"Delete stored objects that no record references."`
}

// reasoned is the flag of every command that changes something.
type reasoned struct {
	Reason string `name:"reason" short:"m" help:"Reason for the audit log."`
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
	Worker string `arg:"" help:"Worker, as in assay worker list."`
	reasoned
}

// Run cordons a worker.
func (c *adminCordonCmd) Run(a *app) error {
	return a.act(func(f client.Admin) (store.Action, error) { return f.Cordon(a.ctx, c.Worker, c.Reason) })
}

type adminUncordonCmd struct {
	Worker string `arg:"" help:"Worker, as in assay worker list."`
	reasoned
}

// Run uncordons a worker.
func (c *adminUncordonCmd) Run(a *app) error {
	return a.act(func(f client.Admin) (store.Action, error) { return f.Uncordon(a.ctx, c.Worker, c.Reason) })
}

type adminQuarantineCmd struct {
	Worker string        `arg:"" help:"Worker, as in assay worker list."`
	For    time.Duration `name:"for" default:"10m" help:"Duration of the quarantine."`
	reasoned
}

// Run quarantines a worker.
func (c *adminQuarantineCmd) Run(a *app) error {
	q := api.QuarantineRequest{Reason: c.Reason, For: job.Duration(c.For)}
	return a.act(func(f client.Admin) (store.Action, error) { return f.Quarantine(a.ctx, c.Worker, q) })
}

type adminUnquarantineCmd struct {
	Worker string `arg:"" help:"Worker, as in assay worker list."`
	reasoned
}

// Run ends a quarantine.
func (c *adminUnquarantineCmd) Run(a *app) error {
	return a.act(func(f client.Admin) (store.Action, error) { return f.Unquarantine(a.ctx, c.Worker, c.Reason) })
}
