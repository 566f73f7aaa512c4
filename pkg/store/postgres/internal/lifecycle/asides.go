package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

const asides = `
SELECT a.id, a.at, a.step, a.job_id, a.batch_id, t.name, a.lease, a.worker, a.outcome, a.ended, coalesce(octet_length(a.body), 0), a.sqlstate, a.error
FROM set_aside a JOIN tenants t ON t.id = a.tenant_id WHERE a.id > $1 ORDER BY a.id LIMIT $2`

// Asides implements store.Asides.
func (s *Transitions) Asides(ctx context.Context, after job.ID, limit int) (out []store.Aside, err error) {
	err = s.db.Do(ctx, "list rows set aside", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, asides, pg.UUID(cmp.Or(after, pg.NilID)), max(limit, 1))
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a store.Aside, err error) {
			var id, of, batch pgtype.UUID
			err = row.Scan(&id, &a.At, &a.Call, &of, &batch, &a.Tenant, &a.Lease, &a.Worker, &a.Outcome, &a.Ended, &a.Bytes, &a.SQLState, &a.Error)
			a.ID, a.Job, a.Batch = pg.JobID(id), pg.JobID(of), pg.BatchID(batch)
			return a, err
		})
		return err
	})
	return out, err
}

// CountAsides implements store.Asides.
func (s *Transitions) CountAsides(ctx context.Context) (n int64, err error) {
	err = s.db.Do(ctx, "count rows set aside", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM set_aside ORDER BY id LIMIT $1) few`, store.StatsCap).Scan(&n)
	})
	return n, err
}

// asideRow is a row of set_aside that is to be recorded.
type asideRow struct {
	refusal
	ended store.AsideEnd
	seq   int64
}

func readAside(ctx context.Context, tx pgx.Tx, id job.ID) (k asideRow, err error) {
	var of pgtype.UUID
	var body []byte
	err = tx.QueryRow(ctx, `SELECT step, job_id, lease, worker, outcome, body, message, ended, seq FROM set_aside WHERE id = $1 FOR UPDATE`, pg.UUID(id)).
		Scan(&k.step, &of, &k.lease, &k.worker, &k.outcome, &body, &k.message, &k.ended, &k.seq)
	if errors.Is(err, pgx.ErrNoRows) {
		return k, fmt.Errorf("%w: no rejected result has the id %s", job.ErrNotFound, id)
	}
	k.job = pg.JobID(of)
	if body != nil {
		text := string(body)
		k.body = &text
	}
	return k, err
}

// rerecord sets the outcome $2 and the result $3 (NULL: unchanged) of the finished job $1, from the lease $4 of the
// worker $5. add is 1 if its batch does not count it yet, else 0; its number is then the next one, else $7.
func rerecord(of job.ID) string {
	return `
WITH was AS MATERIALIZED (
	SELECT id, batch_id, tenant_id, outcome, identity, earlier FROM jobs WHERE id = $1 AND outcome IS NOT NULL AND ` + pg.OnDay("id", of) + ` FOR UPDATE),
moved AS (
	UPDATE jobs j SET outcome = $2, state = CASE WHEN $2 = 'canceled' THEN 'canceled' ELSE 'finished' END FROM was w WHERE j.id = w.id),
counted AS (
	UPDATE batch_counts c SET recorded = c.recorded + $6::bigint,
		` + format.PerOutcome(`%[1]s = c.%[1]s + ($2 = '%[1]s')::integer - ($6::bigint = 0 AND w.outcome = '%[1]s')::integer`) + `,
		ended_at = CASE WHEN c.recorded + $6::bigint = c.total THEN coalesce(c.ended_at, now()) END
	FROM was w WHERE c.batch_id = w.batch_id RETURNING c.recorded),
recorded AS (
	INSERT INTO results AS r (id, batch_id, seq, lease, tenant_id, outcome, reason, worker, identity, attempts, body)
	SELECT w.id, w.batch_id, CASE WHEN $6::bigint > 0 THEN coalesce((SELECT recorded FROM counted), 0) ELSE $7::bigint END, $4, w.tenant_id, $2, '',
		nullif($5::text, ''), w.identity, CASE WHEN w.earlier > 0 THEN ` + attemptsOf("w.id") + ` END, coalesce($3::text, old.body, ` + bodyWith(`$8::text`) + `)
	FROM was w LEFT JOIN results old ON old.id = w.id
	ON CONFLICT (id) DO UPDATE SET seq = EXCLUDED.seq, lease = EXCLUDED.lease, outcome = EXCLUDED.outcome, reason = EXCLUDED.reason,
		worker = EXCLUDED.worker, body = EXCLUDED.body)
SELECT count(*) FROM was`
}

// RetryAside implements store.Asides.
func (s *Transitions) RetryAside(ctx context.Context, a *store.Action, id job.ID) error {
	err := s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		k, err := readAside(ctx, tx, id)
		if err != nil {
			return false, err
		}
		switch k.ended {
		case store.AsideHeld:
			_, err = endBy(ctx, tx, k.refusal, way{endings[0], true})
			if errors.Is(err, pgx.ErrNoRows) { // it ended in another way
				err = nil
			}
		case store.AsideRecorded:
			if k.body != nil {
				err = s.rerecord(ctx, tx, k, 0)
			}
		case store.AsideCounted:
			err = s.rerecord(ctx, tx, k, 0)
		default:
			err = s.rerecord(ctx, tx, k, 1)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM set_aside WHERE id = $1`, pg.UUID(id))
		}
		return true, err
	})
	if pg.IsRowError(err) {
		return fmt.Errorf("%w: PostgreSQL still rejects it (SQLSTATE %s); repair the cause first: %w", job.ErrConflict, pg.Code(err), err)
	}
	return err
}

func (s *Transitions) rerecord(ctx context.Context, tx pgx.Tx, k asideRow, add int) error {
	var n int64
	return tx.QueryRow(ctx, rerecord(k.job), pg.UUID(k.job), string(k.outcome), k.body, int64(k.lease), k.worker, add, k.seq, k.message).Scan(&n)
}

// DropAside implements store.Asides.
func (s *Transitions) DropAside(ctx context.Context, a *store.Action, id job.ID) error {
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		k, err := readAside(ctx, tx, id)
		if err != nil {
			return false, err
		}
		if k.ended == store.AsideHeld {
			return false, fmt.Errorf("%w: job %s is not finished; repair the cause, and retry", job.ErrConflict, k.job)
		}
		_, err = tx.Exec(ctx, `DELETE FROM set_aside WHERE id = $1`, pg.UUID(id))
		return true, err
	})
}
