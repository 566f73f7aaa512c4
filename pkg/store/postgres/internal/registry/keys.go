package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

const keyColumns = `k.id, k.name, left(encode(k.hash, 'hex'), 8), t.name, k.role, k.label, k.policy, k.created_at, k.created_by,
	k.expires_at, k.revoked_at, k.revoked_by, k.last_used_at`

// scanKey scans keyColumns, and the columns after them.
func scanKey(row pgx.Row, more ...any) (k store.Key, err error) {
	var id pgtype.UUID
	err = row.Scan(append([]any{&id, &k.Name, &k.Mark, &k.Tenant, &k.Role, &k.Label, &k.Policy, &k.CreatedAt, &k.CreatedBy,
		&k.ExpiresAt, &k.RevokedAt, &k.RevokedBy, &k.LastUsedAt}, more...)...)
	k.ID = pg.JobID(id)
	return k, err
}

// changeKeys is the first statement of a transaction that changes keys: its row is the lock
// under which they are counted.
func changeKeys(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE key_changes SET n = n + 1 WHERE one`)
	return err
}

const putKey = `
INSERT INTO keys (id, tenant_id, name, hash, role, label, policy, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// countKeys counts the live keys of a tenant, and the keys that it created since the id $2.
const countKeys = `
SELECT (SELECT count(*) FROM keys WHERE tenant_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())),
	(SELECT count(*) FROM keys WHERE tenant_id = $1 AND id >= $2)`

// roomForKey is job.ErrTooMany if a tenant may not have one key more.
func roomForKey(ctx context.Context, tx pgx.Tx, tenant int32, name string) error {
	var live, made int64
	err := tx.QueryRow(ctx, countKeys, tenant, pg.UUID(job.FirstIDAt(time.Now().Add(-time.Hour)))).Scan(&live, &made)
	switch {
	case err != nil:
		return err
	case live >= store.MaxLiveKeys:
		return fmt.Errorf("%w: tenant %s has %d live keys, the maximum; revoke some", job.ErrTooMany, name, store.MaxLiveKeys)
	case made >= store.MaxNewKeys:
		return fmt.Errorf("%w: tenant %s has made %d keys in an hour, and %d are the most (new keys); wait", job.ErrTooMany, name, made, store.MaxNewKeys)
	}
	return nil
}

// PutKey implements store.Keys.
func (s *Registry) PutKey(ctx context.Context, a *store.Action, k store.LiveKey) (made store.Key, err error) {
	if k.Name == "" || k.Role == "" {
		return made, fmt.Errorf("%w: key %q: it has a name and a role", job.ErrInvalid, k.Name)
	}
	t, err := s.tenantOf(ctx, k.Tenant)
	if err != nil {
		return made, err
	}
	err = s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := changeKeys(ctx, tx); err != nil {
			return false, err
		}
		if err := roomForKey(ctx, tx, t, k.Tenant); err != nil {
			return false, err
		}
		_, err := tx.Exec(ctx, putKey, pg.UUID(k.ID), t, pg.CleanText(k.Name), k.Hash[:], k.Role, k.Label, k.Policy, pg.CleanText(k.CreatedBy), k.ExpiresAt)
		if err == nil {
			made, err = readKey(ctx, tx, k.ID)
		}
		return true, err
	})
	return made, err
}

// tenantOf is the number of a tenant that is to have something.
func (s *Registry) tenantOf(ctx context.Context, name string) (t int32, err error) {
	err = s.db.Do(ctx, "tenant", func(ctx context.Context) error {
		t, err = s.db.TenantID(ctx, name)
		return err
	})
	return t, err
}

func readKey(ctx context.Context, tx pgx.Tx, id job.ID) (store.Key, error) {
	k, err := scanKey(tx.QueryRow(ctx, `SELECT `+keyColumns+` FROM keys k JOIN tenants t ON t.id = k.tenant_id WHERE k.id = $1`, pg.UUID(id)))
	if errors.Is(err, pgx.ErrNoRows) {
		err = noKey(id)
	}
	return k, err
}

func noKey(id job.ID) error { return fmt.Errorf("%w: key %s", job.ErrNotFound, id) }

// Keys implements store.Keys.
func (s *Registry) Keys(ctx context.Context, tenant string, before job.ID, limit int) (ks []store.Key, err error) {
	err = s.db.Do(ctx, "keys", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, `SELECT `+keyColumns+` FROM tenants t JOIN keys k ON k.tenant_id = t.id
			WHERE t.name = $1 AND k.id < $2 ORDER BY k.id DESC LIMIT $3`, tenant, pg.UUID(cmp.Or(before, pg.LastID)), max(limit, 1))
		if err != nil {
			return err
		}
		ks, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Key, error) { return scanKey(row) })
		return err
	})
	return ks, err
}

// Key implements store.Keys.
func (s *Registry) Key(ctx context.Context, tenant string, id job.ID) (k store.Key, err error) {
	err = s.db.Do(ctx, "key", func(ctx context.Context) error {
		k, err = scanKey(s.db.Pool.QueryRow(ctx, `SELECT `+keyColumns+` FROM keys k JOIN tenants t ON t.id = k.tenant_id
			WHERE k.id = $1 AND $2 IN ('', t.name)`, pg.UUID(id), tenant))
		if errors.Is(err, pgx.ErrNoRows) {
			err = noKey(id)
		}
		return err
	})
	return k, err
}

// RevokeKey implements store.Keys.
func (s *Registry) RevokeKey(ctx context.Context, a *store.Action, id job.ID) (k store.Key, err error) {
	err = s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := changeKeys(ctx, tx); err != nil {
			return false, err
		}
		tag, err := tx.Exec(ctx, `UPDATE keys SET revoked_at = now(), revoked_by = $2 WHERE id = $1 AND revoked_at IS NULL`,
			pg.UUID(id), pg.CleanText(a.Actor))
		if err == nil {
			k, err = readKey(ctx, tx, id)
		}
		return tag.RowsAffected() > 0, err
	})
	return k, err
}

// keyMark is how far the changes of keys are. Their numbers become visible in their order: see
// changeKeys, and the trigger keys_numbered.
const keyMark = `SELECT n, coalesce((SELECT name FROM lineage WHERE one), '') FROM key_changes WHERE one`

// KeyNews implements store.Keys. A revoked key works until the answer arrives.
func (s *Registry) KeyNews(ctx context.Context, since store.KeyMark) (news store.KeyNews, err error) {
	err = s.db.Urgent(ctx, "key changes", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, keyMark).Scan(&news.At.Changes, &news.At.History)
	})
	if err != nil || news.At == since {
		return news, err
	}
	news.All = since == (store.KeyMark{}) || since.History != news.At.History || since.Changes > news.At.Changes
	where, args := `k.changed > $1`, []any{since.Changes}
	if news.All {
		where, args = `k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())`, nil
	}
	err = s.db.Urgent(ctx, "changed keys", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, `SELECT `+keyColumns+`, k.hash FROM keys k JOIN tenants t ON t.id = k.tenant_id WHERE `+where, args...)
		if err != nil {
			return err
		}
		news.Keys, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k store.LiveKey, err error) {
			var hash []byte
			k.Key, err = scanKey(row, &hash)
			copy(k.Hash[:], hash)
			return k, err
		})
		return err
	})
	return news, err
}

// KeysUsed implements store.Keys.
func (s *Registry) KeysUsed(ctx context.Context, at map[job.ID]time.Time) error {
	ids, times := make([]job.ID, 0, len(at)), make([]time.Time, 0, len(at))
	for id := range at {
		ids = append(ids, id)
	}
	slices.Sort(ids) // so that two dispatchers that write of the same keys do not wait for each other in a circle
	for _, id := range ids {
		times = append(times, at[id])
	}
	return s.db.Do(ctx, "keys used", func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, `UPDATE keys k SET last_used_at = u.at FROM unnest($1::uuid[], $2::timestamptz[]) AS u (id, at)
			WHERE k.id = u.id AND (k.last_used_at IS NULL OR k.last_used_at < u.at)`, pg.UUIDs(ids), times)
		return err
	})
}
