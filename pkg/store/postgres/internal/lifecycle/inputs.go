package lifecycle

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// inputsPage is how many queued jobs one statement reads the specs of.
const inputsPage = 5000

// queuedInputs reads the inputs of the next $1 queued jobs behind a place in the index of the queue ($2 to $7). Its
// last row is the place where it ended. $8 is as $1 of underwayInputs.
const queuedInputs = `
WITH page AS MATERIALIZED (
	SELECT pool, tenant_id, batch_id, priority, lane, id FROM live_jobs
	WHERE state = 'queued' AND (pool, tenant_id, batch_id, priority, lane, id) > ($2::text, $3::integer, $4::uuid, $5::integer, $6::integer, $7::uuid)
	ORDER BY pool, tenant_id, batch_id, priority, lane, id LIMIT $1)
SELECT DISTINCT t.name, m.found[1], false, '', 0, NULL::uuid, 0, 0, NULL::uuid
FROM page j JOIN live_specs s ON s.id = j.id JOIN tenants t ON t.id = j.tenant_id,
	regexp_matches(s.spec, 'sha256:[0-9a-f]{64}', 'g') AS m (found)
WHERE j.id < $8 OR EXISTS (SELECT FROM batches b WHERE b.id = j.batch_id AND b.retry_of IS NOT NULL)
UNION ALL (SELECT '', '', true, pool, tenant_id, batch_id, priority, lane, id FROM page
	ORDER BY pool DESC, tenant_id DESC, batch_id DESC, priority DESC, lane DESC, id DESC LIMIT 1)`

// underwayInputs reads the inputs of dispatched and running jobs, which are at most as many as the windows and the
// slots. Recent jobs (ids from $1 on) are left out, because they have made their blobs young; jobs of retried batches
// are not.
const underwayInputs = `
WITH live AS (
	SELECT id, batch_id, tenant_id FROM live_jobs WHERE state = 'dispatched'
	UNION ALL SELECT id, batch_id, tenant_id FROM live_jobs WHERE state = 'running')
SELECT DISTINCT t.name, m.found[1]
FROM live j JOIN live_specs s ON s.id = j.id JOIN tenants t ON t.id = j.tenant_id,
	regexp_matches(s.spec, 'sha256:[0-9a-f]{64}', 'g') AS m (found)
WHERE j.id < $1 OR EXISTS (SELECT FROM batches b WHERE b.id = j.batch_id AND b.retry_of IS NOT NULL)`

// inputsTime is how long all statements of Inputs take at most.
const inputsTime = 10 * time.Minute

// Inputs implements store.Scheduler. Any text in the form of a blob's name counts as one: a false match costs room in
// the object store. All pages are of one snapshot, so a job that moves meanwhile is in one of them.
func (s *Transitions) Inputs(ctx context.Context, before time.Time) (out []store.Input, err error) {
	ctx, cancel := context.WithTimeout(ctx, inputsTime)
	defer cancel()
	old := pg.UUID(job.FirstIDAt(before))
	err = pgx.BeginTxFunc(ctx, s.db.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, underwayInputs, old)
		if err != nil {
			return err
		}
		found := map[store.Input]bool{}
		var in store.Input
		if _, err := pgx.ForEachRow(rows, []any{&in.Tenant, &in.Blob}, func() error {
			found[in] = true
			return nil
		}); err != nil {
			return err
		}
		at := &queuePlace{batch: pg.UUID(pg.NilID), id: pg.UUID(pg.NilID)}
		for more := true; more; {
			if more, err = at.inputs(ctx, tx, old, found); err != nil {
				return err
			}
		}
		out = slices.Collect(maps.Keys(found))
		return nil
	})
	return out, pg.Translate("read inputs", err)
}

// queuePlace is a place in the index of the queue.
type queuePlace struct {
	pool           string
	tenant         int32
	batch          pgtype.UUID
	priority, lane int32
	id             pgtype.UUID
}

// inputs reads a page behind the place, and moves it to the end of the page. It reports whether there was one.
func (at *queuePlace) inputs(ctx context.Context, tx pgx.Tx, old pgtype.UUID, found map[store.Input]bool) (more bool, err error) {
	rows, err := tx.Query(ctx, queuedInputs, inputsPage, at.pool, at.tenant, at.batch, at.priority, at.lane, at.id, old)
	if err != nil {
		return false, err
	}
	var in store.Input
	var end queuePlace
	var isEnd bool
	_, err = pgx.ForEachRow(rows, []any{&in.Tenant, &in.Blob, &isEnd, &end.pool, &end.tenant, &end.batch, &end.priority, &end.lane, &end.id}, func() error {
		if isEnd {
			*at, more = end, true
		} else {
			found[in] = true
		}
		return nil
	})
	return more, err
}
