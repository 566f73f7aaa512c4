package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// tenantID returns the number of a tenant, which it makes on first sight. The
// numbers never change, so they are remembered for the life of the process.
func (s *Store) tenantID(ctx context.Context, name string) (int32, error) {
	if id, ok := s.tenants.Load(name); ok {
		return id.(int32), nil
	}
	if name == "" {
		return 0, fmt.Errorf("%w: a tenant has a name", job.ErrInvalid)
	}
	if _, err := s.pool.Exec(ctx, `INSERT INTO tenants (name) VALUES ($1) ON CONFLICT DO NOTHING`, name); err != nil {
		return 0, err
	}
	var id int32
	if err := s.pool.QueryRow(ctx, `SELECT id FROM tenants WHERE name = $1`, name).Scan(&id); err != nil {
		return 0, err
	}
	s.tenants.Store(name, id)
	return id, nil
}

// noteLimit notes whether a tenant has a limit of running jobs.
func (s *Store) noteLimit(tenant int32, limited bool) {
	if _, unlimited := s.unlimited.Load(tenant); unlimited != limited {
		return // as it was
	}
	if limited {
		s.unlimited.Delete(tenant)
	} else {
		s.unlimited.Store(tenant, struct{}{})
	}
}

// knownTenant is tenantID for readers: it makes none. Zero stands for all
// tenants; -1, which no tenant has, for one that does not exist.
func (s *Store) knownTenant(ctx context.Context, name string) (int32, error) {
	if name == "" {
		return 0, nil
	}
	if id, ok := s.tenants.Load(name); ok {
		return id.(int32), nil
	}
	var id int32
	err := s.pool.QueryRow(ctx, `SELECT id FROM tenants WHERE name = $1`, name).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	s.tenants.Store(name, id)
	return id, nil
}

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
func (s *Store) Tenant(ctx context.Context, name string) (store.Tenant, error) {
	t := store.Tenant{Name: name, Weight: 1}
	err := s.do(ctx, "tenant", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `SELECT `+tenantColumns+` FROM tenants WHERE name = $1`, name)
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
func (s *Store) PutTenant(ctx context.Context, t store.Tenant) error {
	if t.Name == "" || t.Weight < 0 || t.MaxRunning < 0 {
		return fmt.Errorf("%w: tenant %q: it has a name, a weight above 0 and max_running of 0 or more", job.ErrInvalid, t.Name)
	}
	if err := t.LabelCaps.Validate("label_caps"); err != nil {
		return fmt.Errorf("tenant %q: %w", t.Name, err)
	}
	t.Weight = cmp.Or(t.Weight, 1)
	return s.do(ctx, "put tenant", func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, `
			INSERT INTO tenants AS t (name, weight, max_running, label_caps, ceiling) VALUES ($1, $2, nullif($3, 0), $4, $5)
			ON CONFLICT (name) DO UPDATE SET ceiling = EXCLUDED.ceiling,
				weight = CASE WHEN t.override ? 'weight' THEN t.weight ELSE EXCLUDED.weight END,
				max_running = CASE WHEN t.override ? 'max_running' THEN t.max_running ELSE EXCLUDED.max_running END,
				label_caps = CASE WHEN t.override ? 'label_caps' THEN t.label_caps ELSE EXCLUDED.label_caps END,
				granted = CASE WHEN t.override IS NOT NULL THEN
					jsonb_build_object('weight', EXCLUDED.weight, 'max_running', EXCLUDED.max_running, 'label_caps', EXCLUDED.label_caps) END`,
			t.Name, t.Weight, t.MaxRunning, jsonOrNull(t.LabelCaps), textOrNull(t.Ceiling))
		return err
	})
}

// Tenants implements store.Tenants.
func (s *Store) Tenants(ctx context.Context) (all []store.Tenant, err error) {
	err = s.do(ctx, "tenants", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `SELECT `+tenantColumns+` FROM tenants ORDER BY name`)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scanTenant)
		return err
	})
	return all, err
}

func textOrNull(raw json.RawMessage) *string {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	text := string(raw)
	return &text
}
