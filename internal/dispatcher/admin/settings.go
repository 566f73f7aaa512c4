package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// tenantSettings is the settings of a tenant (see store.Tenant), and its stored policies.
type tenantSettings struct {
	Name       string                     `json:"name"`
	Weight     float64                    `json:"weight"`
	MaxRunning int                        `json:"max_running,omitempty"`
	LabelCaps  job.LabelCaps              `json:"label_caps,omitempty"`
	Ceiling    json.RawMessage            `json:"ceiling,omitempty"`
	Policies   map[string]json.RawMessage `json:"policies,omitempty"`

	text json.RawMessage // as written in the file
}

// tenant returns g as it is stored, with a compact ceiling.
func (g *tenantSettings) tenant() store.Tenant {
	t := store.Tenant{Name: g.Name, Weight: g.Weight, MaxRunning: g.MaxRunning, LabelCaps: g.LabelCaps}
	var packed bytes.Buffer
	if len(g.Ceiling) > 0 && json.Compact(&packed, g.Ceiling) == nil {
		t.Ceiling = packed.Bytes()
	}
	return t
}

// Limits of settings.
const (
	maxWeight  = 1e6
	maxRunning = 1 << 30 // largest count that the store supports
)

// checkTenant returns the tenant as it is stored. It returns job.ErrInvalid for invalid settings.
func checkTenant(t store.Tenant) (store.Tenant, error) {
	g := tenantSettings{Name: t.Name, Weight: t.Weight, MaxRunning: t.MaxRunning, LabelCaps: t.LabelCaps, Ceiling: t.Ceiling}
	if err := g.check(); err != nil {
		return t, err
	}
	return g.tenant(), nil
}

// policyName matches the names that the API accepts.
var policyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// check checks the settings, and each policy under the ceiling, as jobs would have it.
func (g *tenantSettings) check() error {
	switch {
	case !(g.Weight >= 0 && g.Weight <= maxWeight):
		return job.Invalid("weight", "must be 0 (the default weight, 1) to %d", int(maxWeight))
	case g.MaxRunning < 0 || g.MaxRunning > maxRunning:
		return job.Invalid("max_running", "must be 0 (no limit) to %d", maxRunning)
	}
	if err := g.LabelCaps.Validate("label_caps"); err != nil {
		return err
	}
	ceiling, err := policy.ParseCeiling(g.Ceiling)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(g.Policies)) {
		if !policyName.MatchString(name) {
			return fmt.Errorf("policies: %.80q is not a name of a policy", name)
		}
		p, err := policy.ParseOver(ceiling.Clamp(policy.Default()), g.Policies[name])
		if err == nil {
			_, err = ceiling.Apply(p)
		}
		if err != nil {
			return fmt.Errorf("policies.%s: %w", name, err)
		}
	}
	return nil
}
