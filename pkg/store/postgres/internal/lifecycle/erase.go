package lifecycle

import (
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

// endedBatch locks the counters of a batch $1 of the tenant $2 against changes and returns whether it is over.
const endedBatch = `
SELECT c.ended_at IS NOT NULL FROM batch_counts c JOIN batches b ON b.id = c.batch_id
WHERE c.batch_id = $1 AND ($2::integer = 0 OR b.tenant_id = $2) FOR UPDATE OF c`

// endedJobs are the next jobs of a batch by their records; a job with several attempts may have left objects of each.
func endedJobs(days pg.Days) string {
	return `
SELECT r.id, r.attempts IS NOT NULL OR strpos(r.body, '"object":"') > 0 FROM results r
WHERE r.batch_id = $1 AND r.seq > 0 AND ` + days.In("r.id") + ` ORDER BY r.seq LIMIT $2`
}

// erase removes the jobs $1 of one day that are over, of the batch $2, which may be none, and counts them out of it.
func erase(day pg.Days) string {
	return `
WITH gone AS (
	DELETE FROM jobs j WHERE j.id = ANY ($1::uuid[]) AND j.batch_id = $2 AND j.outcome IS NOT NULL AND ` + day.In("j.id") + `
	RETURNING j.id, j.outcome),
specified AS (DELETE FROM specs s WHERE s.id = ANY (ARRAY(SELECT id FROM gone)) AND ` + day.In("s.id") + `),
tried AS (DELETE FROM attempts a WHERE a.job_id = ANY (ARRAY(SELECT id FROM gone)) AND ` + day.In("a.job_id") + `),
blamed AS (DELETE FROM blames b USING gone g WHERE b.job_id = g.id),
aside AS (DELETE FROM set_aside a USING gone g WHERE a.job_id = g.id),
recorded AS (DELETE FROM results r WHERE r.id = ANY (ARRAY(SELECT id FROM gone)) AND ` + day.In("r.id") + ` RETURNING r.seq),
tally AS (SELECT count(*) AS n, ` + format.PerOutcome(`count(*) FILTER (WHERE outcome = '%[1]s') AS %[1]s`) + ` FROM gone),
counted AS (
	UPDATE batch_counts c SET total = c.total - t.n, recorded = c.recorded - t.n, erased = c.erased + t.n,
		erased_numbers = c.erased_numbers + (SELECT coalesce(sum(seq), 0) FROM recorded), ` + format.PerOutcome(`%[1]s = c.%[1]s - t.%[1]s`) + `
	FROM tally t WHERE c.batch_id = $2)
SELECT n FROM tally`
}

// EraseJob implements store.Eraser.
func (s *Transitions) EraseJob(ctx context.Context, a *store.Action, tenant string, id job.ID) error {
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return false, err
		}
		var batch pgtype.UUID
		var over bool
		err = tx.QueryRow(ctx, `SELECT batch_id, outcome IS NOT NULL FROM jobs WHERE id = $1 AND ($2::integer = 0 OR tenant_id = $2) AND `+pg.OnDay("id", id)+` FOR UPDATE`,
			pg.UUID(id), t).Scan(&batch, &over)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return false, fmt.Errorf("%w: job %s", job.ErrNotFound, id)
		case err != nil:
			return false, err
		case !over:
			return false, fmt.Errorf("%w: job %s is not over", job.ErrConflict, id)
		}
		if b := pg.BatchID(batch); b != "" {
			if err := s.lockEnded(ctx, tx, t, b); err != nil {
				return false, err
			}
		}
		var n int64
		err = tx.QueryRow(ctx, erase(pg.DayOf(id)), pg.UUIDs([]job.ID{id}), batch).Scan(&n)
		return n > 0, err
	})
}

// lockEnded refuses a batch that is not over. An ended batch stays so to the end of the transaction.
func (s *Transitions) lockEnded(ctx context.Context, tx pgx.Tx, tenant int32, batch job.ID) error {
	var over bool
	err := tx.QueryRow(ctx, endedBatch, pg.UUID(batch), tenant).Scan(&over)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: batch %s", job.ErrNotFound, batch)
	case err == nil && !over:
		return fmt.Errorf("%w: batch %s is not over", job.ErrConflict, batch)
	}
	return err
}

// inEnded does f in a transaction in which a batch is over.
func (s *Transitions) inEnded(ctx context.Context, op, tenant string, batch job.ID, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.db.Do(ctx, op, func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
			if err := s.lockEnded(ctx, tx, t, batch); err != nil {
				return err
			}
			return f(ctx, tx)
		})
	})
}

// ErasableJobs implements store.Eraser.
func (s *Transitions) ErasableJobs(ctx context.Context, tenant string, batch job.ID, n int) (out []store.ErasableJob, err error) {
	days, err := s.daysOf(ctx, batch)
	if err != nil {
		return nil, err
	}
	err = s.inEnded(ctx, "ended jobs", tenant, batch, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, endedJobs(days), pg.UUID(batch), n)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e store.ErasableJob, err error) {
			var id pgtype.UUID
			err = row.Scan(&id, &e.Stored)
			e.Job = pg.JobID(id)
			return e, err
		})
		return err
	})
	return out, err
}

// EraseJobs implements store.Eraser. Each day is a transaction of its own, so that none locks the partitions of many.
func (s *Transitions) EraseJobs(ctx context.Context, tenant string, batch job.ID, jobs []job.ID) error {
	days, of := pg.ByDay(jobs, func(id job.ID) job.ID { return id })
	for _, day := range days {
		err := s.inEnded(ctx, "erase jobs", tenant, batch, func(ctx context.Context, tx pgx.Tx) error {
			var n int64
			return tx.QueryRow(ctx, erase(day), pg.UUIDs(of[day]), pg.UUID(batch)).Scan(&n)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// daysOf returns the days that a batch has jobs of.
func (s *Transitions) daysOf(ctx context.Context, batch job.ID) (days pg.Days, err error) {
	err = s.db.Do(ctx, "days of a batch", func(ctx context.Context) error {
		days, err = s.read.DaysOf(ctx, batch)
		return err
	})
	return days, err
}

// EraseBatch implements store.Eraser. Its callback and its lease go with it.
func (s *Transitions) EraseBatch(ctx context.Context, a *store.Action, tenant string, batch job.ID) error {
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return false, err
		}
		if err := s.lockEnded(ctx, tx, t, batch); err != nil {
			return false, err
		}
		tag, err := tx.Exec(ctx, `DELETE FROM batch_counts WHERE batch_id = $1 AND total = 0`, pg.UUID(batch))
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("%w: batch %s has jobs", job.ErrConflict, batch)
		}
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, `DELETE FROM batches WHERE id = $1`, pg.UUID(batch))
		return true, err
	})
}
