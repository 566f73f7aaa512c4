package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// readTenants reads what an operator grants to whom: a JSON list of tenants.
func readTenants(file string) ([]store.Tenant, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err != nil {
		return nil, fmt.Errorf("%s: must be a JSON list of tenants: %w", file, err)
	}
	var out []store.Tenant
	for i, row := range rows {
		var t store.Tenant
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
		if _, err := policy.ParseCeiling(t.Ceiling); err != nil {
			return nil, fmt.Errorf("%s: %s (%s): %w", file, at, t.Name, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// putTenants stores them. Tenants that are not listed keep what they have.
func putTenants(ctx context.Context, s store.Tenants, file string) error {
	if file == "" {
		return nil
	}
	tenants, err := readTenants(file)
	for i := 0; err == nil && i < len(tenants); i++ {
		err = s.PutTenant(ctx, tenants[i])
	}
	if err != nil {
		return fmt.Errorf("--tenants-file: %w", err)
	}
	return nil
}
