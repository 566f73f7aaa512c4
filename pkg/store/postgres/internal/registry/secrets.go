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
)

// PutSecret implements store.Secrets.
func (s *Registry) PutSecret(ctx context.Context, a *store.Action, ref store.SecretRef, sealed []byte) error {
	if ref.Name == "" || len(sealed) == 0 {
		return fmt.Errorf("%w: secret %q: it has a name and a value", job.ErrInvalid, ref.Name)
	}
	t, err := s.tenantID(ctx, ref.Tenant)
	if err != nil {
		return err
	}
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		var had *time.Time
		err := tx.QueryRow(ctx, `SELECT updated_at FROM secrets WHERE tenant_id = $1 AND name = $2 FOR UPDATE`, t, ref.Name).Scan(&had)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return false, err
		}
		var now time.Time
		err = tx.QueryRow(ctx, `
			INSERT INTO secrets (tenant_id, name, sealed) VALUES ($1, $2, $3)
			ON CONFLICT (tenant_id, name) DO UPDATE SET sealed = EXCLUDED.sealed, updated_at = now() RETURNING updated_at`, t, ref.Name, sealed).Scan(&now)
		if a != nil {
			a.Before, a.After = shownSecret(had), shownSecret(&now)
		}
		return true, err
	})
}

// DeleteSecret implements store.Secrets.
func (s *Registry) DeleteSecret(ctx context.Context, a *store.Action, ref store.SecretRef) error {
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		var had time.Time
		err := tx.QueryRow(ctx, `DELETE FROM secrets USING tenants t WHERE tenant_id = t.id AND t.name = $1 AND secrets.name = $2 RETURNING updated_at`,
			ref.Tenant, ref.Name).Scan(&had)
		if errors.Is(err, pgx.ErrNoRows) {
			err = fmt.Errorf("%w: secret %q", job.ErrNotFound, ref.Name)
		}
		if a != nil && err == nil {
			a.Before = shownSecret(&had)
		}
		return err == nil, err
	})
}

// shownSecret is a secret in the record of a change: the time of the change, without the value.
func shownSecret(at *time.Time) json.RawMessage {
	if at == nil {
		return nil
	}
	raw, _ := json.Marshal(map[string]time.Time{"updated_at": at.UTC()}) // a time marshals
	return raw
}

// Secrets implements store.Secrets.
func (s *Registry) Secrets(ctx context.Context, tenant string) (found []store.StoredSecret, err error) {
	err = s.db.Do(ctx, "secrets", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, `
			SELECT s.name, s.updated_at FROM secrets s JOIN tenants t ON t.id = s.tenant_id WHERE t.name = $1 ORDER BY s.name`, tenant)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[store.StoredSecret])
		return err
	})
	return found, err
}

// Sealed implements store.Secrets.
func (s *Registry) Sealed(ctx context.Context, refs []store.SecretRef) (map[store.SecretRef][]byte, error) {
	out := make(map[store.SecretRef][]byte, len(refs))
	if len(refs) == 0 {
		return out, nil
	}
	tenants, names := make([]string, len(refs)), make([]string, len(refs))
	for i, r := range refs {
		tenants[i], names[i] = r.Tenant, r.Name
	}
	err := s.db.Do(ctx, "sealed secrets", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, `
			SELECT i.tenant, i.name, s.sealed FROM unnest($1::text[], $2::text[]) AS i (tenant, name)
			JOIN tenants t ON t.name = i.tenant JOIN secrets s ON s.tenant_id = t.id AND s.name = i.name`, tenants, names)
		if err != nil {
			return err
		}
		var ref store.SecretRef
		var sealed []byte
		_, err = pgx.ForEachRow(rows, []any{&ref.Tenant, &ref.Name, &sealed}, func() error {
			out[ref], sealed = sealed, nil // the next row gets its own memory
			return nil
		})
		return err
	})
	return out, err
}
