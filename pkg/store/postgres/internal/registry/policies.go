package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Policy implements store.Policies.
func (s *Registry) Policy(ctx context.Context, tenant, name string, version int) (raw json.RawMessage, err error) {
	err = s.db.Do(ctx, "policy", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
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

// putPolicy returns the previous newest version, and whether it was replaced.
const putPolicy = `
WITH newest AS (
	SELECT version, policy FROM policies WHERE tenant_id = $1 AND name = $2 ORDER BY version DESC LIMIT 1),
put AS (
	INSERT INTO policies (tenant_id, name, version, policy)
	SELECT $1, $2, coalesce((SELECT version FROM newest), 0) + 1, $3
	WHERE NOT EXISTS (SELECT FROM newest WHERE policy = $3)
	RETURNING version)
SELECT coalesce((SELECT version FROM newest), 0), (SELECT policy FROM newest), EXISTS (SELECT FROM put)`

// maxShown is the largest policy that the record of a change includes. For a larger one it includes the version only,
// under which the policy is stored.
const maxShown = 16 << 10

// shownPolicy is a version of a policy, as the record of a change has it.
func shownPolicy(version int, policy json.RawMessage) json.RawMessage {
	if version == 0 {
		return nil
	}
	v := struct {
		Version int             `json:"version"`
		Policy  json.RawMessage `json:"policy,omitempty"`
	}{Version: version}
	if len(policy) <= maxShown {
		v.Policy = policy
	}
	raw, _ := json.Marshal(v) // the policy is JSON
	return raw
}

// PutPolicy implements store.Policies.
func (s *Registry) PutPolicy(ctx context.Context, a *store.Action, tenant, name string, p json.RawMessage) error {
	if name == "" || !json.Valid(p) {
		return fmt.Errorf("%w: policy %q: it has a name and is JSON", job.ErrInvalid, name)
	}
	t, err := s.tenantID(ctx, tenant)
	if err != nil {
		return err
	}
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (changed bool, err error) {
		var version int
		var before json.RawMessage
		if err := tx.QueryRow(ctx, putPolicy, t, name, string(p)).Scan(&version, (*[]byte)(&before), &changed); err != nil {
			return false, err
		}
		if a != nil && changed {
			a.Before, a.After = shownPolicy(version, before), shownPolicy(version+1, p)
		}
		return changed, nil
	})
}

// Policies implements store.Policies.
func (s *Registry) Policies(ctx context.Context, tenant string) (ps []store.StoredPolicy, err error) {
	err = s.db.Do(ctx, "policies", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
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
