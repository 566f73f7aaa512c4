package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

const tenantColumns = `name, version, weight, coalesce(max_running, 0), label_caps, ceiling, override, override_until, granted`

func scanTenant(row pgx.CollectableRow) (store.Tenant, error) {
	var t store.Tenant
	var ceiling *string
	var over *store.Override
	var o store.Overridden
	var granted *store.Override
	err := row.Scan(&t.Name, &t.Version, &t.Weight, &t.MaxRunning, &t.LabelCaps, &ceiling, &over, &o.Until, &granted)
	if over != nil && granted != nil {
		o.Set, o.Granted = *over, *granted
		t.Override = &o
	}
	if ceiling != nil {
		t.Ceiling = json.RawMessage(*ceiling)
	}
	return t, err
}

// Tenant implements store.Tenants.
func (s *Registry) Tenant(ctx context.Context, name string) (store.Tenant, error) {
	t := store.Tenant{Name: name, Weight: 1}
	err := s.db.Do(ctx, "tenant", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, `SELECT `+tenantColumns+` FROM tenants WHERE name = $1`, name)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, scanTenant)
		if len(found) == 1 {
			t = found[0]
		}
		return err
	})
	return t, err
}

// PutTenant implements store.Tenants.
func (s *Registry) PutTenant(ctx context.Context, t store.Tenant) error {
	_, err := s.Grant(ctx, nil, t, store.GrantIf{})
	return err
}

// Grant implements store.Tenants.
func (s *Registry) Grant(ctx context.Context, a *store.Action, t store.Tenant, only store.GrantIf) (now store.Tenant, err error) {
	if err := checkTenant(t); err != nil {
		return now, err
	}
	if _, err := s.tenantID(ctx, t.Name); err != nil {
		return now, err
	}
	defer s.db.News.Settings()
	return now, s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		before, entry, err := lockTenant(ctx, tx, t.Name)
		switch {
		case err != nil:
			return false, err
		case only.Version != nil && *only.Version != before.Version:
			return false, fmt.Errorf("%w: tenant %.80q has the version %d by now", job.ErrStale, t.Name, before.Version)
		case only.Entry != "" && only.Entry == entry:
			return false, fmt.Errorf("%w: this entry of tenant %.80q was applied before", job.ErrConflict, t.Name)
		}
		_, err = tx.Exec(ctx, grant, t.Name, cmp.Or(t.Weight, 1), t.MaxRunning, pg.CapsOrNull(t.LabelCaps), pg.TextOrNull(t.Ceiling), only.Entry)
		if err != nil {
			return false, err
		}
		if now, _, err = lockTenant(ctx, tx, t.Name); err == nil && a != nil {
			a.Before, a.After = shownTenant(before), shownTenant(now)
		}
		return now.Version != before.Version, err
	})
}

// IsApplied implements store.Tenants.
func (s *Registry) IsApplied(ctx context.Context, tenant, entry string) (is bool, err error) {
	err = s.db.Do(ctx, "entry of a tenant", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM tenants WHERE name = $1 AND entry = $2)`, tenant, entry).Scan(&is)
	})
	return is, err
}

// lockTenant reads a tenant and locks it until the end of the transaction.
func lockTenant(ctx context.Context, tx pgx.Tx, name string) (t store.Tenant, entry string, err error) {
	if err = tx.QueryRow(ctx, `SELECT entry FROM tenants WHERE name = $1 FOR NO KEY UPDATE`, name).Scan(&entry); err != nil {
		return t, entry, err
	}
	rows, err := tx.Query(ctx, `SELECT `+tenantColumns+` FROM tenants WHERE name = $1`, name)
	if err != nil {
		return t, entry, err
	}
	t, err = pgx.CollectExactlyOneRow(rows, scanTenant)
	return t, entry, err
}

// shownTenant is a tenant as the record of a change has it.
func shownTenant(t store.Tenant) json.RawMessage {
	raw, _ := json.Marshal(t) // a tenant always marshals
	return raw
}

// grant changes the settings underneath an override. An equal change does nothing and creates no new version.
const grant = `
UPDATE tenants t SET ceiling = n.ceiling, version = t.version + n.changes, entry = CASE WHEN n.entry = '' THEN t.entry ELSE n.entry END,
	weight = CASE WHEN t.override ? 'weight' THEN t.weight ELSE n.weight END,
	max_running = CASE WHEN t.override ? 'max_running' THEN t.max_running ELSE n.max_running END,
	label_caps = CASE WHEN t.override ? 'label_caps' THEN t.label_caps ELSE n.label_caps END,
	granted = CASE WHEN t.override IS NOT NULL THEN n.granted END
FROM (
	SELECT w.*, g.granted, (x.ceiling IS DISTINCT FROM w.ceiling OR coalesce(x.granted, ` + grantSQL + `) <> g.granted)::integer AS changes
	FROM tenants x, (SELECT $2::float8 AS weight, nullif($3::integer, 0) AS max_running, $4::jsonb AS label_caps, $5::text AS ceiling, $6::text AS entry) w,
		LATERAL (SELECT jsonb_build_object('weight', w.weight, 'max_running', w.max_running, 'label_caps', w.label_caps) AS granted) g
	WHERE x.name = $1) n
WHERE t.name = $1 AND (n.changes > 0 OR n.entry <> '')`

func checkTenant(t store.Tenant) error {
	if t.Name == "" || t.Weight < 0 || t.MaxRunning < 0 {
		return fmt.Errorf("%w: tenant %q: needs a name, and a weight and max_running of 0 or more", job.ErrInvalid, t.Name)
	}
	if err := t.LabelCaps.Validate("label_caps"); err != nil {
		return fmt.Errorf("tenant %q: %w", t.Name, err)
	}
	return nil
}

// tenantID is the number of a tenant, which is there from then on.
func (s *Registry) tenantID(ctx context.Context, name string) (id int32, err error) {
	err = s.db.Do(ctx, "tenant", func(ctx context.Context) error {
		id, err = s.db.TenantID(ctx, name)
		return err
	})
	return id, err
}

// Tenants implements store.Tenants.
func (s *Registry) Tenants(ctx context.Context) (all []store.Tenant, err error) {
	err = s.db.Do(ctx, "tenants", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, `SELECT `+tenantColumns+` FROM tenants ORDER BY name`)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scanTenant)
		return err
	})
	return all, err
}
