package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// takeTenants is how many tenants with callbacks of batches that are over one call looks at.
const takeTenants = 500

// isDue is the condition of the index callbacks_due.
const isDue = `k.delivered_at IS NULL AND k.given_up_at IS NULL AND k.ended_at IS NOT NULL`

// tenantsToTell steps from tenant to tenant in the index, from the one after $1 on.
var tenantsToTell = fmt.Sprintf(`
WITH RECURSIVE t AS (
	(SELECT k.tenant_id, 1 AS n FROM callbacks k WHERE `+isDue+` AND k.tenant_id > $1 ORDER BY k.tenant_id, k.next_at LIMIT 1)
	UNION ALL
	SELECT (SELECT k.tenant_id FROM callbacks k WHERE `+isDue+` AND k.tenant_id > t.tenant_id ORDER BY k.tenant_id, k.next_at LIMIT 1), t.n + 1
	FROM t WHERE t.tenant_id IS NOT NULL AND t.n < %d)
SELECT tenant_id FROM t WHERE tenant_id IS NOT NULL`, takeTenants)

// takeCallbacks takes $1 callbacks of the tenants $3, the first of each before the second of any,
// and $4 of each at most. It reads the second only if there are few first ones. next_at is the
// lease ($2, ms) as well as the pause: a row that another sender has just taken is not due any
// more when its lock is free. $5 is OFFSET.
var takeCallbacks = `
WITH heads AS MATERIALIZED (
	SELECT h.batch_id, h.next_at, 1::bigint AS turn FROM unnest($3::integer[]) AS t (id), LATERAL (
		SELECT k.batch_id, k.next_at FROM callbacks k WHERE ` + isDue + ` AND k.tenant_id = t.id AND k.next_at <= now()
		ORDER BY k.tenant_id, k.next_at LIMIT 1) h),
others AS (
	SELECT h.batch_id, h.next_at, h.turn FROM unnest($3::integer[]) AS t (id), LATERAL (
		SELECT k.batch_id, k.next_at, row_number() OVER (ORDER BY k.next_at) AS turn FROM (
			SELECT k.batch_id, k.next_at FROM callbacks k WHERE ` + isDue + ` AND k.tenant_id = t.id AND k.next_at <= now()
			ORDER BY k.tenant_id, k.next_at LIMIT least($1::bigint + $5::bigint, $4::bigint)) k) h
	WHERE (SELECT count(*) FROM heads) < $1::bigint + $5::bigint AND h.turn > 1),
first AS MATERIALIZED (
	SELECT batch_id FROM (SELECT * FROM heads UNION ALL SELECT * FROM others) due ORDER BY turn, next_at LIMIT $1::bigint OFFSET $5::bigint),
picked AS MATERIALIZED (
	SELECT k.batch_id FROM first f JOIN callbacks k ON k.batch_id = f.batch_id
	WHERE ` + isDue + ` AND k.next_at <= now()
	FOR NO KEY UPDATE OF k SKIP LOCKED),
taken AS (
	UPDATE callbacks k SET tries = k.tries + 1, next_at = now() + $2 * interval '1 millisecond'
	FROM picked p WHERE k.batch_id = p.batch_id
	RETURNING k.*)
SELECT k.batch_id, k.delivery, t.name, k.url, k.secret, k.tries, 1000 * extract(epoch FROM now() - k.ended_at)::float8
FROM taken k JOIN tenants t ON t.id = k.tenant_id`

// TakeCallbacks implements store.Callbacks.
func (s *Transitions) TakeCallbacks(ctx context.Context, q store.CallbackQuery) (out []store.CallbackTry, next int64, err error) {
	tenants, next, err := s.tenantsToTell(ctx, q)
	if err != nil || len(tenants) == 0 {
		return nil, next, err
	}
	share := q.Share
	if share <= 0 {
		share = q.N
	}
	const op = "take callbacks"
	err = pg.Chunks(max(q.N, 1), time.Time{}, func(c pg.Chunk) (n int, err error) {
		limit := min(c.Limit, q.N-len(out))
		if limit == 0 && c.Limit > 0 {
			return 0, nil // there is no room for more
		}
		err = s.db.Do(ctx, op, func(ctx context.Context) error {
			rows, err := s.db.Pool.Query(ctx, takeCallbacks, limit, q.Lease.Milliseconds(), tenants, share, c.Offset)
			if err != nil {
				return err
			}
			some, err := pgx.CollectRows(rows, scanTry)
			out, n = append(out, some...), len(some)
			return err
		})
		return n, err
	}, func(_ pg.Chunk, cause error) (bool, error) { return s.db.Refused(ctx, op, cause) })
	return out, next, err
}

func scanTry(row pgx.CollectableRow) (c store.CallbackTry, err error) {
	var batch, delivery pgtype.UUID
	var age float64
	err = row.Scan(&batch, &delivery, &c.Tenant, &c.URL, &c.SecretRef, &c.Try, &age)
	c.Batch, c.Delivery, c.Age = pg.JobID(batch), delivery.String(), time.Duration(age*float64(time.Millisecond))
	return c, err
}

// tenantsToTell returns the tenants that a call looks at, and after which the next one goes on: 0
// after the last.
func (s *Transitions) tenantsToTell(ctx context.Context, q store.CallbackQuery) (tenants []int32, next int64, err error) {
	except := map[int32]bool{}
	for _, name := range q.Except {
		t, err := s.db.LookupTenant(ctx, name)
		if err != nil {
			return nil, q.After, err
		}
		except[t] = true
	}
	err = s.db.Do(ctx, "tenants with callbacks", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, tenantsToTell, int32(q.After))
		if err != nil {
			return err
		}
		tenants, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	if err != nil {
		return nil, q.After, err
	}
	if len(tenants) == takeTenants {
		next = int64(tenants[len(tenants)-1])
	}
	return slices.DeleteFunc(tenants, func(t int32) bool { return except[t] }), next, nil
}

// OpenCallbacks implements store.Callbacks.
func (s *Transitions) OpenCallbacks(ctx context.Context, tenant string) (n int, err error) {
	err = s.db.Do(ctx, "count callbacks", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		return s.db.Pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM callbacks k
			WHERE k.tenant_id = $1 AND k.delivered_at IS NULL AND k.given_up_at IS NULL ORDER BY k.tenant_id LIMIT $2) few`, t, store.MaxOpenCallbacks).Scan(&n)
	})
	return n, err
}

// settleCallback is fenced by the number of the try.
const settleCallback = `
UPDATE callbacks SET last_error = $3,
	delivered_at = CASE WHEN $4 THEN now() END, given_up_at = CASE WHEN $5 AND NOT $4 THEN now() END,
	next_at = now() + $6 * interval '1 millisecond'
WHERE batch_id = $1 AND tries = $2 AND delivered_at IS NULL AND given_up_at IS NULL`

// SettleCallback implements store.Callbacks.
func (s *Transitions) SettleCallback(ctx context.Context, t store.CallbackTry, e store.CallbackEnd) error {
	return s.db.Do(ctx, "settle callback", func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, settleCallback, pg.UUID(t.Batch), t.Try, pg.CleanText(e.Error), e.Delivered, e.GivenUp, e.Again.Milliseconds())
		return err
	})
}
