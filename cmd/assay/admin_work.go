package main

import (
	"errors"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/operate"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

type adminRequeueCmd struct {
	Jobs   []string `arg:"" optional:"" help:"Ids of jobs, at most 500."`
	Worker string   `name:"worker" help:"Requeue all jobs of this worker instead."`
	Reason string   `name:"reason" short:"m" required:"" help:"Reason, recorded with the attempts."`
}

// Run requeues jobs.
func (c *adminRequeueCmd) Run(a *app) error {
	q := api.RequeueRequest{Worker: c.Worker, Reason: c.Reason}
	for _, id := range c.Jobs {
		q.Jobs = append(q.Jobs, job.ID(id))
	}
	return a.act(func(f client.Admin) (store.Action, error) { return f.Requeue(a.ctx, q) })
}

// paused selects the jobs of a pause.
type paused struct {
	Batch  string `name:"batch" xor:"what" placeholder:"ID" help:"Select the waiting jobs of this batch."`
	Tenant string `name:"tenant" xor:"what" help:"Select the waiting jobs of this tenant."`
	Pool   string `name:"pool" xor:"what" help:"Select the workers of this pool."`
	reasoned
}

func (p *paused) request() api.PauseRequest {
	return api.PauseRequest{Batch: job.ID(p.Batch), Tenant: p.Tenant, Pool: p.Pool, Reason: p.Reason}
}

type adminPauseCmd struct{ paused }

// Run pauses jobs, or lists the pauses.
func (c *adminPauseCmd) Run(a *app) error {
	if c.Batch+c.Tenant+c.Pool == "" {
		return c.list(a)
	}
	return a.act(func(f client.Admin) (store.Action, error) { return f.Pause(a.ctx, c.request()) })
}

func (c *adminPauseCmd) list(a *app) error {
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	found, err := fleet.Pauses(a.ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(found)
	}
	t := show.NewTable(a.stdout, "PAUSED", "NAME", "SINCE", "BY", "WHY")
	for _, p := range found {
		t.Row(p.Kind, p.Name, p.At.UTC().Format(time.RFC3339), p.By, p.Reason)
	}
	return t.End()
}

type adminResumeCmd struct{ paused }

// Run resumes jobs.
func (c *adminResumeCmd) Run(a *app) error {
	return a.act(func(f client.Admin) (store.Action, error) { return f.Resume(a.ctx, c.request()) })
}

// adminTenantsCmd has the commands about one tenant.
type adminTenantsCmd struct {
	Show   adminTenantCmd       `cmd:"" default:"withargs" help:"Show a tenant's grants, or override them."`
	Export operate.ExportTenant `cmd:"" help:"Export a tenant to a file for another fleet; needs an admin's token."`
	Import operate.ImportTenant `cmd:"" help:"Import a tenant of another fleet from a file; needs an admin's token."`
}

type adminTenantCmd struct {
	Name       string         `arg:"" help:"Name of the tenant."`
	Weight     *float64       `name:"weight" placeholder:"N" help:"Share of the fleet, relative to other tenants."`
	MaxRunning *int           `name:"max-running" placeholder:"N" help:"Most jobs dispatched or running at once; 0 means no limit."`
	LabelCaps  map[string]int `name:"label-cap" placeholder:"LABEL=N" help:"Most jobs dispatched or running at once with the same value of this label."`
	NoCaps     bool           `name:"no-label-caps" help:"Remove all label caps."`
	For        time.Duration  `name:"for" help:"Duration of the override (default: until --restore)."`
	Restore    bool           `name:"restore" help:"End the override."`
	reasoned
}

// Run shows or overrides a tenant's limits.
func (c *adminTenantCmd) Run(a *app) error {
	q := api.OverrideRequest{Weight: c.Weight, MaxRunning: c.MaxRunning, For: job.Duration(c.For), Reason: c.Reason}
	if len(c.LabelCaps) > 0 || c.NoCaps {
		caps := job.LabelCaps{}
		for label, n := range c.LabelCaps {
			caps[label] = n
		}
		q.LabelCaps = &caps
	}
	sets := q.Weight != nil || q.MaxRunning != nil || q.LabelCaps != nil
	switch {
	case sets && c.Restore, len(c.LabelCaps) > 0 && c.NoCaps:
		return errors.New("--restore and --no-label-caps contradict the other flags; leave them out")
	case c.Restore:
		return a.act(func(f client.Admin) (store.Action, error) { return f.Restore(a.ctx, c.Name, c.Reason) })
	case sets:
		return a.act(func(f client.Admin) (store.Action, error) { return f.Override(a.ctx, c.Name, q) })
	case c.For != 0:
		return errors.New("--for needs --weight, --max-running or --label-cap")
	}
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	t, err := fleet.Tenant(a.ctx, c.Name)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(t)
	}
	a.printf("%s: weight %g, max_running %d (0: no limit), label_caps %v\n", t.Name, t.Weight, t.MaxRunning, map[string]int(t.LabelCaps))
	if t.Override != nil {
		until := "until it is ended"
		if u := t.Override.Until; u != nil {
			until = "until " + u.UTC().Format(time.RFC3339)
		}
		a.printf("overridden by an operator, %s\n", until)
	}
	return nil
}

type adminVerifyCmd struct {
	Batch  string `arg:"" optional:"" help:"Id of the batch (default: all unfinished batches)."`
	Repair bool   `name:"repair" help:"Correct counters where the job rows are complete."`
	reasoned
}

// Run verifies batches page by page. The exit code is 1 if there are unrepaired differences.
func (c *adminVerifyCmd) Run(a *app) error {
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	all := api.VerifyReport{Different: []store.Verified{}, Repaired: []job.ID{}}
	for q := (api.VerifyRequest{Batch: job.ID(c.Batch), Repair: c.Repair, Reason: c.Reason}); ; {
		page, err := fleet.Verify(a.ctx, q)
		if err != nil {
			return err
		}
		all.Checked += page.Checked
		all.Different, all.Repaired = append(all.Different, page.Different...), append(all.Repaired, page.Repaired...)
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if a.JSON {
		err = a.printJSON(all)
	} else {
		for _, v := range all.Different {
			a.printf("batch %s: %s\n", v.Batch, strings.Join(v.Problems, "; "))
		}
		a.printf("%d batches checked, %d differ, %d repaired\n", all.Checked, len(all.Different), len(all.Repaired))
	}
	if err == nil && len(all.Different) > len(all.Repaired) {
		err = exitCode(1)
	}
	return err
}

type adminSweepCmd struct {
	DryRun bool `name:"dry-run" help:"Count the objects and delete nothing."`
	reasoned
}

// Run sweeps the object store.
func (c *adminSweepCmd) Run(a *app) error {
	fleet, err := a.operator()
	if err != nil {
		return err
	}
	r, err := fleet.Sweep(a.ctx, api.SweepRequest{DryRun: c.DryRun, Reason: c.Reason})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(r)
	}
	a.printf("%d of %d attempts in the object store have no record, and %d inputs are unused; together they have %d bytes\n", r.Orphaned, r.Attempts, r.Blobs, r.Bytes)
	if !r.DryRun {
		a.printf("%d objects removed\n", r.Removed)
	}
	return nil
}
