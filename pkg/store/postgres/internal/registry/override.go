package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// grantSQL is the settings of a tenant without an override.
const grantSQL = `jsonb_build_object('weight', x.weight, 'max_running', x.max_running, 'label_caps', x.label_caps)`

// override replaces settings by those in $2.
const override = `
UPDATE tenants t SET granted = g, override = $2::jsonb, override_until = CASE WHEN $3::bigint > 0 THEN now() + $3 * interval '1 millisecond' END,
	weight = CASE WHEN $2::jsonb ? 'weight' THEN $2::jsonb ->> 'weight' ELSE g ->> 'weight' END::float8,
	max_running = nullif(CASE WHEN $2::jsonb ? 'max_running' THEN $2::jsonb ->> 'max_running' ELSE g ->> 'max_running' END::integer, 0),
	label_caps = nullif(nullif(CASE WHEN $2::jsonb ? 'label_caps' THEN $2::jsonb -> 'label_caps' ELSE g -> 'label_caps' END, 'null'), '{}')
FROM (SELECT id, coalesce(granted, ` + grantSQL + `) AS g FROM tenants x WHERE name = $1 FOR NO KEY UPDATE) base
WHERE t.id = base.id`

// endOverride is for the tenants that a condition chooses.
func endOverride(which string) string {
	return `
UPDATE tenants SET weight = (granted ->> 'weight')::float8, max_running = (granted ->> 'max_running')::integer,
	label_caps = nullif(granted -> 'label_caps', 'null'), granted = NULL, override = NULL, override_until = NULL
WHERE granted IS NOT NULL AND ` + which
}

// Override implements store.Steering.
func (s *Registry) Override(ctx context.Context, a *store.Action, tenant string, o store.Override, d time.Duration) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode override: %w", err)
	}
	defer s.db.News.Settings()
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		changed, err := showChange(ctx, tx, a, tenant, override, tenant, string(raw), d.Milliseconds())
		if err != nil || !changed {
			return changed, err
		}
		return true, pg.Detail(a, struct {
			store.Override
			For job.Duration `json:"for,omitempty"`
		}{o, job.Duration(d)})
	})
}

// EndOverride implements store.Steering.
func (s *Registry) EndOverride(ctx context.Context, a *store.Action, tenant string) error {
	defer s.db.News.Settings()
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		return showChange(ctx, tx, a, tenant, endOverride(`name = $1`), tenant)
	})
}

// showChange makes a change to a tenant, and notes in the action how the tenant was and is.
func showChange(ctx context.Context, tx pgx.Tx, a *store.Action, tenant, sql string, args ...any) (bool, error) {
	before, _, err := lockTenant(ctx, tx, tenant)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%w: tenant %.80q", job.ErrNotFound, tenant)
	}
	if err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, sql, args...)
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	after, _, err := lockTenant(ctx, tx, tenant)
	a.Before, a.After = shownTenant(before), shownTenant(after)
	return true, err
}

// reapOverrides ends expired overrides.
func (s *Registry) reapOverrides(ctx context.Context) error {
	return s.db.Urgent(ctx, "end overrides", func(ctx context.Context) error {
		tag, err := s.db.Pool.Exec(ctx, endOverride(`override_until <= now()`))
		if tag.RowsAffected() > 0 {
			s.db.News.Settings()
		}
		return err
	})
}
