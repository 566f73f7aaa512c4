package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// granted is what an operator grants to a tenant (see store.Tenant), and the policies that
// its jobs may name.
type granted struct {
	Name       string                     `json:"name"`
	Weight     float64                    `json:"weight"`
	MaxRunning int                        `json:"max_running,omitempty"`
	LabelCaps  job.LabelCaps              `json:"label_caps,omitempty"`
	Ceiling    json.RawMessage            `json:"ceiling,omitempty"`
	Policies   map[string]json.RawMessage `json:"policies,omitempty"`
}

func (g *granted) tenant() store.Tenant {
	return store.Tenant{Name: g.Name, Weight: g.Weight, MaxRunning: g.MaxRunning, LabelCaps: g.LabelCaps, Ceiling: g.Ceiling}
}

// policyName is what the API takes for one, too.
var policyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// check reads the ceiling, and the policies under it as jobs would have them.
func (g *granted) check() error {
	ceiling, err := policy.ParseCeiling(g.Ceiling)
	if err != nil {
		return err
	}
	for name, raw := range g.Policies {
		if !policyName.MatchString(name) {
			return fmt.Errorf("policies: %.80q is not a name of a policy", name)
		}
		p, err := policy.ParseOver(ceiling.Clamp(policy.Default()), raw)
		if err == nil {
			_, err = ceiling.Apply(p)
		}
		if err != nil {
			return fmt.Errorf("policies.%s: %w", name, err)
		}
	}
	return nil
}

// readTenants reads what an operator grants to whom: a JSON list of tenants.
func readTenants(file string) ([]granted, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err != nil {
		return nil, fmt.Errorf("%s: must be a JSON list of tenants: %w", file, err)
	}
	var out []granted
	for i, row := range rows {
		var t granted
		at := fmt.Sprintf("tenants[%d]", i)
		if err := job.Decode(row, at, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if t.Name == "" {
			return nil, fmt.Errorf("%s: %s.name: must not be empty", file, at)
		}
		if err := t.LabelCaps.Validate("label_caps"); err != nil {
			return nil, fmt.Errorf("%s: %s (%s): %w", file, at, t.Name, err)
		}
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("%s: %s (%s): %w", file, at, t.Name, err)
		}
		out = append(out, t)
	}
	return out, nil
}

type tenantStore interface {
	store.Tenants
	store.Policies
}

// putTenants stores them. Tenants and policies that are not listed stay as they are; a
// policy that is listed again unchanged makes no new version.
func putTenants(ctx context.Context, s tenantStore, file string) error {
	if file == "" {
		return nil
	}
	tenants, err := readTenants(file)
	for i := 0; err == nil && i < len(tenants); i++ {
		err = s.PutTenant(ctx, tenants[i].tenant())
		for _, name := range slices.Sorted(maps.Keys(tenants[i].Policies)) {
			if err == nil {
				err = s.PutPolicy(ctx, tenants[i].Name, name, tenants[i].Policies[name])
			}
		}
	}
	if err != nil {
		return fmt.Errorf("--tenants-file: %w", err)
	}
	return nil
}
