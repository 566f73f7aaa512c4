// Package operate has commands for operators and tenants of a fleet: limits of tenants, API keys, and
// recorded actions.
package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// Host is the command line that runs a command.
type Host interface {
	Context() context.Context
	Dial() (*client.Client, error)
	// Say prints v if JSON is requested, and otherwise the output of text.
	Say(v any, text func(w io.Writer) error) error
}

// Tenants has the commands for tenants' limits.
type Tenants struct {
	List listTenants `cmd:"" help:"List tenants with their grants and usage; only operators see other tenants."`
	Show showTenant  `cmd:"" help:"Show a tenant."`
	Set  setTenant   `cmd:"" help:"Change the grants of a tenant; omitted flags keep their values. Needs an admin's token."`
}

type listTenants struct{}

// Run lists tenants.
func (listTenants) Run(h Host) error {
	c, err := h.Dial()
	if err != nil {
		return err
	}
	all, err := c.Tenants(h.Context())
	if err != nil {
		return err
	}
	return h.Say(all, func(w io.Writer) error { return List(w, all) })
}

type showTenant struct {
	Name string `arg:"" help:"Name of the tenant."`
}

// Run shows a tenant.
func (t *showTenant) Run(h Host) error {
	c, err := h.Dial()
	if err != nil {
		return err
	}
	found, err := c.Tenant(h.Context(), t.Name)
	if err != nil {
		return err
	}
	return h.Say(found, func(w io.Writer) error { return Show(w, found) })
}

type setTenant struct {
	Name       string         `arg:"" help:"Name of the tenant."`
	Weight     *float64       `name:"weight" placeholder:"N" help:"Share of the fleet, relative to other tenants."`
	MaxRunning *int           `name:"max-running" placeholder:"N" help:"Most jobs dispatched or running at once; 0 means no limit."`
	LabelCaps  map[string]int `name:"label-cap" placeholder:"LABEL=N" help:"Most jobs dispatched or running at once with the same value of this label; replaces all caps."`
	NoCaps     bool           `name:"no-label-caps" help:"Remove all label caps."`
	Ceiling    *string        `name:"ceiling" placeholder:"JSON" help:"Ceiling of policies, and quotas; @FILE reads a file, {} means no limits."`
	Version    int64          `name:"if-version" default:"-1" hidden:"" help:"Change only this version."`
	Reason     string         `name:"reason" short:"m" help:"Reason for the audit log."`
}

// Run changes a tenant's limits. The error is job.ErrStale after a concurrent change.
func (t *setTenant) Run(h Host) error {
	c, err := h.Dial()
	if err != nil {
		return err
	}
	now, err := c.Tenant(h.Context(), t.Name)
	if err != nil {
		return err
	}
	g, err := t.over(grantOf(now.Tenant))
	if err != nil {
		return err
	}
	if t.Version < 0 {
		t.Version = now.Tenant.Version
	}
	put, err := c.PutTenant(h.Context(), t.Name, g, t.Version)
	if err != nil {
		return err
	}
	return h.Say(put, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s has version %d\n", put.Name, put.Version)
		return err
	})
}

// over applies the flags to the current limits.
func (t *setTenant) over(g api.TenantGrant) (_ api.TenantGrant, err error) {
	g.Reason = t.Reason
	if t.Weight != nil {
		g.Weight = *t.Weight
	}
	if t.MaxRunning != nil {
		g.MaxRunning = *t.MaxRunning
	}
	if len(t.LabelCaps) > 0 || t.NoCaps {
		g.LabelCaps = job.LabelCaps{}
		for label, n := range t.LabelCaps {
			g.LabelCaps[label] = n
		}
	}
	if t.Ceiling != nil {
		g.Ceiling, err = readCeiling(*t.Ceiling)
	}
	return g, err
}

// grantOf returns a tenant's limits without its override.
func grantOf(t fleet.Tenant) api.TenantGrant {
	g := api.TenantGrant{Weight: t.Weight, MaxRunning: t.MaxRunning, LabelCaps: t.LabelCaps, Ceiling: t.Ceiling}
	if t.Override == nil {
		return g
	}
	of := t.Override.Granted
	g.MaxRunning, g.LabelCaps = 0, nil
	if of.Weight != nil {
		g.Weight = *of.Weight
	}
	if of.MaxRunning != nil {
		g.MaxRunning = *of.MaxRunning
	}
	if of.LabelCaps != nil {
		g.LabelCaps = *of.LabelCaps
	}
	return g
}

func readCeiling(text string) (json.RawMessage, error) {
	if len(text) > 0 && text[0] == '@' {
		raw, err := os.ReadFile(text[1:])
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	if !json.Valid([]byte(text)) {
		return nil, job.Invalid("ceiling", "must be a JSON object, or @FILE")
	}
	return json.RawMessage(text), nil
}

// List prints tenants as a table.
func List(w io.Writer, all []api.TenantStatus) error {
	t := show.NewTable(w, "TENANT", "VERSION", "WEIGHT", "MAX RUNNING", "QUEUED", "DISPATCHED", "RUNNING", "OLDEST", "NEAREST LIMIT", "OVERRIDDEN")
	for _, s := range all {
		over := ""
		if s.Tenant.Override != nil {
			over = "yes"
		}
		t.Row(s.Tenant.Name, s.Tenant.Version, s.Tenant.Weight, s.Tenant.MaxRunning, s.Queued, s.Dispatched, s.Running, age(s), nearest(s), over)
	}
	return t.End()
}

// age is how long the first job of a tenant's queues has waited.
func age(s api.TenantStatus) string {
	if s.Queued == 0 {
		return "-"
	}
	return time.Duration(s.OldestSeconds * float64(time.Second)).Round(time.Second).String()
}

// nearest returns the tenant's most used quota.
func nearest(s api.TenantStatus) string {
	if len(s.Quotas) == 0 {
		return "-"
	}
	q := s.Quotas[0]
	return fmt.Sprintf("%s %.0f%%", q.Name, 100*q.Share())
}

// Show prints one tenant.
func Show(w io.Writer, s api.TenantStatus) error {
	t := s.Tenant
	_, err := fmt.Fprintf(w, "%s, version %d: weight %g, max_running %d (0: no limit), label_caps %v\n%d queued, %d dispatched, %d running\n",
		t.Name, t.Version, t.Weight, t.MaxRunning, map[string]int(t.LabelCaps), s.Queued, s.Dispatched, s.Running)
	for _, q := range s.Quotas {
		if err == nil {
			_, err = fmt.Fprintf(w, "%s: %d of %d\n", q.Name, q.Used, q.Limit)
		}
	}
	if err == nil && len(t.Ceiling) > 0 {
		_, err = fmt.Fprintf(w, "ceiling %s\n", t.Ceiling)
	}
	if err == nil && t.Override != nil {
		_, err = fmt.Fprintln(w, "overridden by an operator: assay admin tenant", t.Name)
	}
	return err
}
