package main

import (
	"context"
	"encoding/json"
	"errors"
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

// anybody is the name of an entry for tenants that have no ceiling of their own, or one that does not say.
const anybody = "*"

// unnamed is what there may be of such a tenant; a zero is the default.
type unnamed struct {
	Name    string `json:"name"`
	Ceiling struct {
		Queued  int64 `json:"queued"`
		Batches int64 `json:"batches"`
	} `json:"ceiling"`
}

// tenantsFile is what an operator grants to whom.
type tenantsFile struct {
	tenants []granted
	others  unnamed
}

// readTenants reads a JSON list of tenants.
func readTenants(file string) (f tenantsFile, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return f, err
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err != nil {
		return f, fmt.Errorf("%s: must be a JSON list of tenants: %w", file, err)
	}
	for i, row := range rows {
		if err := f.add(row, fmt.Sprintf("tenants[%d]", i)); err != nil {
			return f, fmt.Errorf("%s: %w", file, err)
		}
	}
	return f, nil
}

// add reads one entry.
func (f *tenantsFile) add(row json.RawMessage, at string) error {
	var named struct{ Name string }
	if json.Unmarshal(row, &named) == nil && named.Name == anybody {
		return f.addUnnamed(row, at)
	}
	var t granted
	if err := job.Decode(row, at, &t); err != nil {
		return err
	}
	if t.Name == "" {
		return job.Invalid(at+".name", "must not be empty")
	}
	if err := errors.Join(t.LabelCaps.Validate("label_caps"), t.check()); err != nil {
		return fmt.Errorf("%s (%s): %w", at, t.Name, err)
	}
	f.tenants = append(f.tenants, t)
	return nil
}

func (f *tenantsFile) addUnnamed(row json.RawMessage, at string) error {
	if f.others.Name != "" {
		return job.Invalid(at, "there is an entry %q already", anybody)
	}
	if err := job.Decode(row, at, &f.others); err != nil {
		return fmt.Errorf("%w (of tenants without a ceiling of their own only ceiling.queued and ceiling.batches can be said)", err)
	}
	if c := f.others.Ceiling; c.Queued < 0 || c.Batches < 0 {
		return job.Invalid(at+".ceiling", "must not be negative")
	}
	return nil
}

type tenantStore interface {
	store.Tenants
	store.Policies
}

// putTenants stores them. Tenants and policies that are not listed stay as they are; a
// policy that is listed again unchanged makes no new version. It returns what holds for
// the others.
func putTenants(ctx context.Context, s tenantStore, file string) (others unnamed, err error) {
	if file == "" {
		return others, nil
	}
	f, err := readTenants(file)
	for i := 0; err == nil && i < len(f.tenants); i++ {
		t := f.tenants[i]
		err = s.PutTenant(ctx, t.tenant())
		for _, name := range slices.Sorted(maps.Keys(t.Policies)) {
			if err == nil {
				err = s.PutPolicy(ctx, t.Name, name, t.Policies[name])
			}
		}
	}
	if err != nil {
		return others, fmt.Errorf("--tenants-file: %w", err)
	}
	return f.others, nil
}
