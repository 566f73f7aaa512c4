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

const tenantColumns = `name, weight, coalesce(max_running, 0), label_caps, ceiling, override, override_until, granted`

func scanTenant(row pgx.CollectableRow) (store.Tenant, error) {
	var t store.Tenant
	var ceiling *string
	var over *store.Override
	var o store.Overridden
	var granted *store.Override
	err := row.Scan(&t.Name, &t.Weight, &t.MaxRunning, &t.LabelCaps, &ceiling, &over, &o.Until, &granted)
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
	if t.Name == "" || t.Weight < 0 || t.MaxRunning < 0 {
		return fmt.Errorf("%w: tenant %q: it has a name, a weight above 0 and max_running of 0 or more", job.ErrInvalid, t.Name)
	}
	if err := t.LabelCaps.Validate("label_caps"); err != nil {
		return fmt.Errorf("tenant %q: %w", t.Name, err)
	}
	t.Weight = cmp.Or(t.Weight, 1)
	return s.db.Do(ctx, "put tenant", func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, `
			INSERT INTO tenants AS t (name, weight, max_running, label_caps, ceiling) VALUES ($1, $2, nullif($3, 0), $4, $5)
			ON CONFLICT (name) DO UPDATE SET ceiling = EXCLUDED.ceiling,
				weight = CASE WHEN t.override ? 'weight' THEN t.weight ELSE EXCLUDED.weight END,
				max_running = CASE WHEN t.override ? 'max_running' THEN t.max_running ELSE EXCLUDED.max_running END,
				label_caps = CASE WHEN t.override ? 'label_caps' THEN t.label_caps ELSE EXCLUDED.label_caps END,
				granted = CASE WHEN t.override IS NOT NULL THEN
					jsonb_build_object('weight', EXCLUDED.weight, 'max_running', EXCLUDED.max_running, 'label_caps', EXCLUDED.label_caps) END`,
			t.Name, t.Weight, t.MaxRunning, pg.CapsOrNull(t.LabelCaps), pg.TextOrNull(t.Ceiling))
		return err
	})
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
