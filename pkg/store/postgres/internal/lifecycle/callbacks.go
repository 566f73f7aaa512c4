package lifecycle

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// takeCallbacks looks at every callback that is open, of batches under way too:
// nothing then has to happen at the end of a batch, and nothing can be missed
// there. next_at is the lease as well as the pause: a row that another sender has
// just taken is not due any more when its lock is free.
const takeCallbacks = `
WITH due AS (
	SELECT k.batch_id, k.next_at, row_number() OVER (PARTITION BY k.tenant_id ORDER BY k.next_at) AS turn, c.ended_at
	FROM callbacks k JOIN batch_counts c ON c.batch_id = k.batch_id
	WHERE k.delivered_at IS NULL AND k.given_up_at IS NULL AND k.next_at <= now() AND c.ended_at IS NOT NULL),
first AS MATERIALIZED (SELECT batch_id, ended_at FROM due ORDER BY turn, next_at LIMIT $1),
picked AS MATERIALIZED (
	SELECT k.batch_id, f.ended_at FROM first f JOIN callbacks k ON k.batch_id = f.batch_id
	WHERE k.delivered_at IS NULL AND k.given_up_at IS NULL AND k.next_at <= now()
	FOR NO KEY UPDATE OF k SKIP LOCKED),
taken AS (
	UPDATE callbacks k SET tries = k.tries + 1, next_at = now() + $2 * interval '1 millisecond'
	FROM picked p WHERE k.batch_id = p.batch_id
	RETURNING k.*, p.ended_at)
SELECT k.batch_id, k.delivery, t.name, k.url, k.secret, k.tries, 1000 * extract(epoch FROM now() - k.ended_at)::float8
FROM taken k JOIN tenants t ON t.id = k.tenant_id`

// TakeCallbacks implements store.Callbacks.
func (s *Transitions) TakeCallbacks(ctx context.Context, n int, lease time.Duration) (out []store.CallbackTry, err error) {
	err = s.db.Do(ctx, "take callbacks", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, takeCallbacks, n, lease.Milliseconds())
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c store.CallbackTry, err error) {
			var batch, delivery pgtype.UUID
			var age float64
			err = row.Scan(&batch, &delivery, &c.Tenant, &c.URL, &c.SecretRef, &c.Try, &age)
			c.Batch, c.Delivery, c.Age = pg.JobID(batch), delivery.String(), time.Duration(age*float64(time.Millisecond))
			return c, err
		})
		return err
	})
	return out, err
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
