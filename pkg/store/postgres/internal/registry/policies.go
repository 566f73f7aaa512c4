package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Policy implements store.Policies.
func (s *Registry) Policy(ctx context.Context, tenant, name string, version int) (raw json.RawMessage, err error) {
	err = s.db.Do(ctx, "policy", func(ctx context.Context) error {
		t, err := s.db.KnownTenant(ctx, tenant)
		if err != nil {
			return err
		}
		err = s.db.Pool.QueryRow(ctx, `
			SELECT policy FROM policies WHERE tenant_id = $1 AND name = $2 AND $3 IN (0, version) ORDER BY version DESC LIMIT 1`,
			t, name, version).Scan((*[]byte)(&raw))
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: policy %q", job.ErrNotFound, name)
		}
		return err
	})
	return raw, err
}

const putPolicy = `
WITH newest AS (
	SELECT version, policy FROM policies WHERE tenant_id = $1 AND name = $2 ORDER BY version DESC LIMIT 1)
INSERT INTO policies (tenant_id, name, version, policy)
SELECT $1, $2, coalesce((SELECT version FROM newest), 0) + 1, $3
WHERE NOT EXISTS (SELECT FROM newest WHERE policy = $3)`

// PutPolicy implements store.Policies.
func (s *Registry) PutPolicy(ctx context.Context, tenant, name string, p json.RawMessage) error {
	if name == "" || !json.Valid(p) {
		return fmt.Errorf("%w: policy %q: it has a name and is JSON", job.ErrInvalid, name)
	}
	return s.db.Do(ctx, "put policy", func(ctx context.Context) error {
		t, err := s.db.TenantID(ctx, tenant)
		if err != nil {
			return err
		}
		for range 10 { // two writers who drew the same version
			if _, err = s.db.Pool.Exec(ctx, putPolicy, t, name, string(p)); !pg.IsUniqueViolation(err) {
				return err
			}
		}
		return err
	})
}

// Policies implements store.Policies.
func (s *Registry) Policies(ctx context.Context, tenant string) (ps []store.StoredPolicy, err error) {
	err = s.db.Do(ctx, "policies", func(ctx context.Context) error {
		t, err := s.db.KnownTenant(ctx, tenant)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, `
			SELECT DISTINCT ON (name) name, version, policy, created_at FROM policies
			WHERE tenant_id = $1 ORDER BY name, version DESC`, t)
		if err != nil {
			return err
		}
		ps, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.StoredPolicy, error) {
			var p store.StoredPolicy
			err := row.Scan(&p.Name, &p.Version, (*[]byte)(&p.Policy), &p.CreatedAt)
			return p, err
		})
		return err
	})
	return ps, err
}
