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

const claimKey = `
INSERT INTO idempotency_keys (tenant_id, key, hash, made, held_until)
VALUES ($1, $2, $3, $4, now() + $5::bigint * interval '1 millisecond') ON CONFLICT DO NOTHING`

// ClaimKey implements store.Claims.
func (s *Registry) ClaimKey(ctx context.Context, tenant string, key store.Idempotency, made job.ID, lease time.Duration) (c store.KeyClaim, err error) {
	err = s.db.Do(ctx, "claim a key", func(ctx context.Context) error {
		t, err := s.db.TenantID(ctx, tenant)
		if err != nil {
			return err
		}
		for {
			tag, err := s.db.Pool.Exec(ctx, claimKey, t, key.Key, key.Hash, string(made), lease.Milliseconds())
			if err != nil {
				return err
			}
			if tag.RowsAffected() > 0 {
				c = store.KeyClaim{Made: made, Held: true}
				return nil
			}
			if c, err = s.claimant(ctx, t, key); !errors.Is(err, pgx.ErrNoRows) { // else it was given up just now
				return err
			}
		}
	})
	return c, err
}

// claimant returns the current claim of a key, or pgx.ErrNoRows.
func (s *Registry) claimant(ctx context.Context, tenant int32, key store.Idempotency) (c store.KeyClaim, err error) {
	var hash string
	err = s.db.Pool.QueryRow(ctx, `
		SELECT made::text, hash, held_until IS NULL, coalesce(held_until > now(), false) FROM idempotency_keys WHERE tenant_id = $1 AND key = $2`,
		tenant, key.Key).Scan(&c.Made, &hash, &c.Settled, &c.Held)
	if err == nil && hash != key.Hash {
		err = fmt.Errorf("%w: the key %q came with another body before", job.ErrKeyUsed, key.Key)
	}
	return c, err
}

// HoldKey implements store.Claims.
func (s *Registry) HoldKey(ctx context.Context, tenant, key string, made job.ID, lease time.Duration) (bool, error) {
	return s.onClaim(ctx, "hold a key", tenant, `
		UPDATE idempotency_keys SET held_until = now() + $4::bigint * interval '1 millisecond'
		WHERE tenant_id = $1 AND key = $2 AND made = $3 AND held_until IS NOT NULL`, key, string(made), lease.Milliseconds())
}

// SettleKey implements store.Claims.
func (s *Registry) SettleKey(ctx context.Context, tenant, key string, made, as job.ID) (bool, error) {
	return s.onClaim(ctx, "settle a key", tenant, `
		UPDATE idempotency_keys SET made = $4::uuid, held_until = NULL
		WHERE tenant_id = $1 AND key = $2 AND (made = $3 OR made = $4::uuid AND held_until IS NULL)`, key, string(made), string(as))
}

// FreeKey implements store.Claims.
func (s *Registry) FreeKey(ctx context.Context, tenant, key string, made job.ID) error {
	_, err := s.onClaim(ctx, "free a key", tenant, `
		DELETE FROM idempotency_keys WHERE tenant_id = $1 AND key = $2 AND made = $3 AND held_until IS NOT NULL`, key, string(made))
	return err
}

// onClaim executes a statement about a claim of a tenant ($1), and reports whether the claim exists.
func (s *Registry) onClaim(ctx context.Context, what, tenant, statement string, args ...any) (found bool, err error) {
	err = s.db.Do(ctx, what, func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		tag, err := s.db.Pool.Exec(ctx, statement, append([]any{t}, args...)...)
		found = tag.RowsAffected() > 0
		return err
	})
	return found, err
}

// Execution implements store.Sessions.
func (s *Registry) Execution(ctx context.Context, tenant string, session, id job.ID) (out store.Executed, err error) {
	err = s.db.Do(ctx, "execution", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		out = store.Executed{Session: session, ID: id}
		var result string
		err = s.db.Pool.QueryRow(ctx, `
			SELECT e.code, e.result, e.created_at FROM executes e JOIN sessions s ON s.id = e.session_id
			WHERE e.session_id = $1 AND e.id = $2 AND s.tenant_id = $3`, string(session), string(id), t).Scan(&out.Code, &result, &out.CreatedAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: execution %s", job.ErrNotFound, id)
		}
		out.Result = json.RawMessage(result)
		return err
	})
	return out, err
}
