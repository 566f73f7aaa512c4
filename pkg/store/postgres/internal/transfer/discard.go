package transfer

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// claimDiscards takes the unfinished imports of a tenant away from their processes: without a name of a tenant, they accept no
// rows. It waits for the transactions that add rows. It also returns the imports that an interrupted discard left.
const claimDiscards = `
UPDATE imports SET tenant = '' WHERE finished_at IS NULL AND tenant IN ($1, '') AND id <> $2 RETURNING id, tenant_id`

// discardSome deletes rows of a tenant ($1), at most $2 of each table, and returns their number. Leases, callbacks and
// executions go with their batches and sessions.
const discardSome = `
WITH b AS (DELETE FROM batches WHERE id IN (SELECT id FROM batches WHERE tenant_id = $1 AND sealed_at IS NOT NULL ORDER BY tenant_id, id LIMIT $2) RETURNING id),
c AS (DELETE FROM batch_counts c USING b WHERE c.batch_id = b.id),
s AS (DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE tenant_id = $1 ORDER BY tenant_id, id LIMIT $2) RETURNING id),
i AS (DELETE FROM idempotency_keys WHERE tenant_id = $1 AND key IN (SELECT key FROM idempotency_keys WHERE tenant_id = $1 ORDER BY key LIMIT $2) RETURNING key),
p AS (DELETE FROM policies WHERE tenant_id = $1 AND (name, version) IN (SELECT name, version FROM policies WHERE tenant_id = $1 ORDER BY name, version LIMIT $2) RETURNING name),
x AS (DELETE FROM secrets WHERE tenant_id = $1 RETURNING name)
SELECT (SELECT count(*) FROM b) + (SELECT count(*) FROM s) + (SELECT count(*) FROM i) + (SELECT count(*) FROM p)`

// discard deletes the rows of the unfinished imports of the same tenant that have other ids. Without it, the rows of an
// import whose file is lost would be in the way of the next file.
func (m *Mover) discard(ctx context.Context, i store.Import) error {
	type claim struct {
		id     pgtype.UUID
		tenant int32
	}
	var all []claim
	if err := m.db.Do(ctx, "claim unfinished imports", func(ctx context.Context) error {
		rows, err := m.db.Pool.Query(ctx, claimDiscards, i.Tenant, pg.UUID(i.ID))
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c claim, err error) { return c, row.Scan(&c.id, &c.tenant) })
		return err
	}); err != nil {
		return err
	}
	every := func(job.ID, bool) error { return nil }
	for _, c := range all {
		if err := m.history(ctx, c.tenant, every, func(days pg.Days, ids []pgtype.UUID) error { return m.deleteJobs(ctx, days, ids) }); err != nil {
			return err
		}
		for n := int64(1); n > 0; {
			if err := m.db.Do(ctx, "discard an import", func(ctx context.Context) error {
				return m.db.Pool.QueryRow(ctx, discardSome, c.tenant, pageRows).Scan(&n)
			}); err != nil {
				return err
			}
		}
		if err := m.db.Do(ctx, "discard an import", func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, m.db.Pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, `DELETE FROM imports WHERE id = $1`, c.id); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, `DELETE FROM tenants WHERE id = $1`, c.tenant)
				return err
			})
		}); err != nil {
			return err
		}
	}
	return nil
}

// deleteJobs deletes jobs with their rows. The jobs are last: they are how an interrupted discard finds the rest.
func (m *Mover) deleteJobs(ctx context.Context, days pg.Days, ids []pgtype.UUID) error {
	return m.db.Do(ctx, "discard jobs", func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, m.db.Pool, func(tx pgx.Tx) error {
			for n := len(jobTables) - 1; n >= 0; n-- {
				tb := jobTables[n]
				key, _, _ := strings.Cut(tb.order[0], " ")
				if _, err := tx.Exec(ctx, `DELETE FROM `+tb.name+` WHERE `+tb.where+` AND `+days.In(key), ids); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
