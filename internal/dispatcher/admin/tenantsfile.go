package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// anybody is the name of the entry for tenants without a ceiling, or whose ceiling sets no limit.
const anybody = "*"

// UnnamedTenants is the limits of such tenants; 0 means the default.
type UnnamedTenants struct {
	Name    string `json:"name"`
	Ceiling struct {
		Queued  int64 `json:"queued"`
		Batches int64 `json:"batches"`
	} `json:"ceiling"`
}

// tenantsFile is the parsed file of tenants.
type tenantsFile struct {
	tenants []tenantSettings
	others  UnnamedTenants
}

// readTenants reads a JSON list of tenants.
func readTenants(path string) (f tenantsFile, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err != nil {
		return f, fmt.Errorf("%s: must be a JSON list of tenants: %w", path, err)
	}
	for i, row := range rows {
		if err := f.add(row, fmt.Sprintf("tenants[%d]", i)); err != nil {
			return f, fmt.Errorf("%s: %w", path, err)
		}
	}
	return f, nil
}

// add checks and adds one entry.
func (f *tenantsFile) add(row json.RawMessage, at string) error {
	var named struct{ Name string }
	if json.Unmarshal(row, &named) == nil && named.Name == anybody {
		return f.addUnnamed(row, at)
	}
	var t tenantSettings
	if err := job.Decode(row, at, &t); err != nil {
		return err
	}
	if t.Name == "" {
		return job.Invalid(at+".name", "must not be empty")
	}
	if err := t.check(); err != nil {
		return fmt.Errorf("%s (%s): %w", at, t.Name, err)
	}
	t.text = row
	f.tenants = append(f.tenants, t)
	return nil
}

func (f *tenantsFile) addUnnamed(row json.RawMessage, at string) error {
	if f.others.Name != "" {
		return job.Invalid(at, "has two entries for %q", anybody)
	}
	if err := job.Decode(row, at, &f.others); err != nil {
		return fmt.Errorf("%w (for tenants without a ceiling, only ceiling.queued and ceiling.batches can be set)", err)
	}
	if c := f.others.Ceiling; c.Queued < 0 || c.Batches < 0 {
		return job.Invalid(at+".ceiling", "must not be negative")
	}
	return nil
}

// TenantsStore is the part of the store that ApplyTenants uses.
type TenantsStore interface {
	IsApplied(ctx context.Context, tenant, entry string) (bool, error)
	PutPolicy(ctx context.Context, a *store.Action, tenant, name string, policy json.RawMessage) error
	Grant(ctx context.Context, a *store.Action, t store.Tenant, only store.GrantIf) (store.Tenant, error)
}

// ApplyTenants applies the file of tenants to s. An empty path means no file. It applies an entry only if its text differs
// from the last applied one. So changes over the API last until the entry changes. Unlisted tenants and policies stay
// unchanged, and an unchanged policy gets no new version. ApplyTenants returns the limits of unnamed tenants.
func ApplyTenants(ctx context.Context, s TenantsStore, path string) (others UnnamedTenants, err error) {
	if path == "" {
		return others, nil
	}
	f, err := readTenants(path)
	for i := 0; err == nil && i < len(f.tenants); i++ {
		err = f.tenants[i].apply(ctx, s)
	}
	if err != nil {
		return others, fmt.Errorf("--tenants-file: %w", err)
	}
	return f.others, nil
}

// apply stores an entry unless it is the last one that was applied. The entry is noted last, with the tenant, so that the next
// start repeats an entry that failed.
func (g *tenantSettings) apply(ctx context.Context, s TenantsStore) error {
	var packed bytes.Buffer
	if err := json.Compact(&packed, g.text); err != nil {
		return err
	}
	sum := sha256.Sum256(packed.Bytes())
	entry := hex.EncodeToString(sum[:])
	if is, err := s.IsApplied(ctx, g.Name, entry); is || err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(g.Policies)) {
		if err := s.PutPolicy(ctx, byFile("put policy", name, g.Name), g.Name, name, g.Policies[name]); err != nil {
			return err
		}
	}
	_, err := s.Grant(ctx, byFile("put tenant", g.Name, g.Name), g.tenant(), store.GrantIf{Entry: entry})
	if errors.Is(err, job.ErrConflict) { // another dispatcher has applied it meanwhile
		return nil
	}
	return err
}

// byFile returns the record of an action of the file.
func byFile(action, subject, tenant string) *store.Action {
	return &store.Action{ID: job.NewID(), Actor: "the file of tenants", Action: action, Subject: subject, Tenant: tenant}
}
