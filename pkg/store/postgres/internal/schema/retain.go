package schema

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Retention removes history from its end. Batches and sessions go when they have been over for long enough; then the
// days go whose jobs have been, and of which no kept batch has jobs. A batch goes before any of its rows, so no reader
// sees half of it.

// How many rows one statement deletes.
const (
	forgetChunk = 500
	forgetMany  = 5000 // of small ones
)

// Forget implements store.Scheduler.
func (s *Tables) Forget(ctx context.Context, age time.Duration) (f store.Forgotten, err error) {
	var errs []error
	var executes, chunks, asides, undated int
	for _, step := range []struct {
		sql   string
		chunk int
		n     *int
	}{{forgetChunks, forgetMany, &chunks}, {forgetAsides, forgetMany, &asides}, {forgetBatches, forgetChunk, &f.Batches}, {forgetExecutes, forgetMany, &executes}, {forgetSessions, forgetChunk, &f.Sessions},
		{forgetUndated, forgetChunk, &undated}} {
		var err error
		*step.n, err = s.forgetRows(ctx, step.sql, step.chunk, age)
		errs = append(errs, err)
	}
	f.Days, err = s.forgetDays(ctx, age)
	return f, errors.Join(append(errs, err)...)
}

// forgotten records how far history is deleted, in the statement that deletes: everything that ended before now - $1
// ms.
const forgotten = `
	noted AS (
		INSERT INTO history AS h (since) SELECT now() - $1 * interval '1 millisecond' WHERE EXISTS (SELECT FROM gone)
		ON CONFLICT (one) DO UPDATE SET since = greatest(h.since, EXCLUDED.since))`

// forgetChunks deletes the chunks of uploads in steps, so that little is left to delete with their batches.
const forgetChunks = `
WITH gone AS (
	DELETE FROM upload_chunks x USING (
		SELECT u.batch_id, u.n FROM (
			SELECT b.id FROM batches b JOIN batch_counts c ON c.batch_id = b.id
			WHERE b.id < $3 AND c.ended_at < now() - $1 * interval '1 millisecond' AND b.next_chunk IS NOT NULL ORDER BY b.id) b, upload_chunks u
		WHERE u.batch_id = b.id ORDER BY u.batch_id, u.n LIMIT $2 OFFSET $4) i
	WHERE x.batch_id = i.batch_id AND x.n = i.n RETURNING x.n)
SELECT count(*) FROM gone`

// forgetAsides deletes set-aside rows of finished jobs that no operator recorded for so long.
const forgetAsides = `
WITH gone AS (
	DELETE FROM set_aside WHERE id IN (
		SELECT id FROM set_aside WHERE id < $3 AND at < now() - $1 * interval '1 millisecond' AND ended <> 'held' ORDER BY id LIMIT $2 OFFSET $4)
	RETURNING id)
SELECT count(*) FROM gone`

// forgetBatches deletes batches that have been over for long enough and whose callback, if any, was delivered or given
// up.
const forgetBatches = `
WITH due AS MATERIALIZED (
	SELECT b.id FROM batches b JOIN batch_counts c ON c.batch_id = b.id LEFT JOIN callbacks k ON k.batch_id = b.id
	WHERE b.id < $3 AND c.ended_at < now() - $1 * interval '1 millisecond'
		AND (k.batch_id IS NULL OR k.delivered_at IS NOT NULL OR k.given_up_at IS NOT NULL)
	ORDER BY b.id LIMIT $2 OFFSET $4 FOR UPDATE OF b SKIP LOCKED),
gone AS (DELETE FROM batches b USING due d WHERE b.id = d.id RETURNING b.id),
counts AS (DELETE FROM batch_counts c USING due d WHERE c.batch_id = d.id),` + forgotten + `
SELECT count(*) FROM gone`

// forgetExecutes deletes the executions of sessions in steps, so that little is left to delete with their sessions.
const forgetExecutes = `
WITH gone AS (
	DELETE FROM executes x USING (
		SELECT e.session_id, e.id FROM (
			SELECT id FROM sessions WHERE id < $3 AND ended_at < now() - $1 * interval '1 millisecond' ORDER BY id) s, executes e
		WHERE e.session_id = s.id ORDER BY e.session_id, e.seq, e.id LIMIT $2 OFFSET $4) i
	WHERE x.session_id = i.session_id AND x.id = i.id RETURNING x.id)
SELECT count(*) FROM gone`

const forgetSessions = `
WITH gone AS (
	DELETE FROM sessions WHERE id IN (
		SELECT id FROM sessions WHERE id < $3 AND ended_at < now() - $1 * interval '1 millisecond'
		ORDER BY id LIMIT $2 OFFSET $4 FOR UPDATE SKIP LOCKED)
	RETURNING id),` + forgotten + `
SELECT count(*) FROM gone`

// forgetUndated deletes jobs of the default partition, whose days have no partition, and their rows in the other
// default partitions.
const forgetUndated = `
WITH gone AS (
	DELETE FROM jobs_default WHERE id IN (
		SELECT j.id FROM jobs_default j WHERE j.state IN ('finished', 'canceled') AND j.ended_at < now() - $1 * interval '1 millisecond'
			AND $3::uuid IS NOT NULL AND NOT EXISTS (SELECT FROM batches b WHERE b.id = j.batch_id)
		ORDER BY j.id LIMIT $2 OFFSET $4 FOR UPDATE SKIP LOCKED)
	RETURNING id),
specified AS (DELETE FROM specs_default s USING gone g WHERE s.id = g.id),
tried AS (DELETE FROM attempts_default a USING gone g WHERE a.job_id = g.id),
recorded AS (DELETE FROM results_default r USING gone g WHERE r.id = g.id),` + forgotten + `
SELECT count(*) FROM gone`

// forgetRows has one of the statements above delete all that it finds, a few at a time. It passes
// over rows that PostgreSQL refuses to delete.
func (s *Tables) forgetRows(ctx context.Context, sql string, chunk int, age time.Duration) (n int, err error) {
	err = pg.Chunks(chunk, time.Time{}, func(c pg.Chunk) (some int, err error) {
		err = s.db.Do(ctx, "forget", func(ctx context.Context) error {
			return s.db.Pool.QueryRow(ctx, sql, age.Milliseconds(), c.Limit, pg.UUID(job.FirstIDAt(time.Now().Add(24*time.Hour-age))), c.Offset).Scan(&some)
		})
		n += some
		return some, err
	}, func(_ pg.Chunk, cause error) (bool, error) { return s.db.Refused(ctx, "forget", cause) })
	return n, err
}

// oldDays are the days that retention may remove and that still have partitions, oldest first.
const oldDays = `SELECT DISTINCT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
	WHERE i.inhparent IN ('jobs'::regclass, 'specs'::regclass, 'attempts'::regclass, 'results'::regclass) AND c.relname ~ '_[0-9]{8}$'
	AND to_date(right(c.relname, 8), 'YYYYMMDD') < (now() AT TIME ZONE 'UTC' - $1 * interval '1 millisecond')::date
	ORDER BY 1`

// forgetDays drops days. It continues after a day that cannot be dropped now.
func (s *Tables) forgetDays(ctx context.Context, age time.Duration) (days int, err error) {
	var old []time.Time
	if err := s.db.Do(ctx, "look for old days", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, oldDays, age.Milliseconds())
		if err != nil {
			return err
		}
		old, err = pgx.CollectRows(rows, pgx.RowTo[time.Time])
		return err
	}); err != nil {
		return 0, err
	}
	var errs []error
	for _, day := range old {
		dropped, err := s.forgetDay(ctx, day, age)
		if err != nil {
			errs = append(errs, fmt.Errorf("forget %s: %w", day.Format(time.DateOnly), err))
		}
		if dropped {
			days++
		}
	}
	return days, errors.Join(errs...)
}

// forgetDay drops the partitions of one day if all of its jobs, and their batches, have been over for long enough. It
// checks this before it locks anything: finished jobs stay finished, and a day long past gets no new ones.
//
// An import is the exception: it may add jobs to an old day. So forgetDay drops nothing if rows were imported since it
// judged the day.
func (s *Tables) forgetDay(ctx context.Context, day time.Time, age time.Duration) (dropped bool, err error) {
	imported, err := s.imported(ctx)
	if err != nil {
		return false, err
	}
	if over, err := s.dayOver(ctx, day, age, imported); err != nil || !over {
		return false, err
	}
	if err := s.db.Do(ctx, "record the deleted days", func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, `WITH gone AS (SELECT 1),`+forgotten+` SELECT 1`, age.Milliseconds())
		return err
	}); err != nil {
		return false, err
	}
	// Jobs first: a reader that sees a finished job must see its record.
	for _, parent := range []string{"jobs", "specs", "attempts", "results"} {
		part := parent + day.Format("_20060102")
		err := s.exclusively(ctx, []string{parent, part}, func(ctx context.Context, tx pgx.Tx) error {
			// The parent first, as every statement does: otherwise a session with the parent waits for the partition,
			// and the drop waits for that session.
			if _, err := tx.Exec(ctx, `LOCK TABLE ONLY `+parent+` IN ACCESS EXCLUSIVE MODE`); err != nil {
				return err
			}
			var now string
			if err := tx.QueryRow(ctx, importedRows).Scan(&now); err != nil {
				return err
			}
			if now != imported {
				return errImported
			}
			_, err := tx.Exec(ctx, `DROP TABLE IF EXISTS `+part)
			return err
		})
		if errors.Is(err, errImported) {
			return false, nil // the next Forget judges the day again
		}
		if err != nil {
			return false, err
		}
	}
	s.ended.Delete(day)
	return true, nil
}

// errImported means that rows were imported since a day was judged.
var errImported = errors.New("rows were imported meanwhile")

// importedRows has the numbers of rows of all imports. It changes in the transaction that adds rows.
const importedRows = `SELECT coalesce(string_agg(id || ':' || rows, ' ' ORDER BY id), '') FROM imports`

func (s *Tables) imported(ctx context.Context) (rows string, err error) {
	err = s.db.Do(ctx, "count imported rows", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, importedRows).Scan(&rows)
	})
	return rows, err
}

// dayOver reports whether a day's jobs have been over for long enough, and no batch is kept
// that may have some of them: its jobs have ids from between its beginning and the last of
// them, by clocks that may differ by a day.
func (s *Tables) dayOver(ctx context.Context, day time.Time, age time.Duration, imported string) (over bool, err error) {
	part, left := day.Format("jobs_20060102"), false
	err = s.db.Do(ctx, "judge a day", func(ctx context.Context) error {
		if err := s.db.Pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, part).Scan(&left); err != nil || !left {
			over = !left // it was judged before
			return err
		}
		err := s.db.Pool.QueryRow(ctx, `SELECT NOT (`+unfinishedIn(part, "true")+` OR `+unfinishedIn("jobs_default", pg.OnDay("id", job.FirstIDAt(day)))+` OR EXISTS (
			SELECT FROM batches b WHERE b.id < $1 AND b.appended_at > $2))`, pgx.QueryExecModeExec,
			pg.UUID(job.FirstIDAt(day.AddDate(0, 0, 2))), day.AddDate(0, 0, -1)).Scan(&over)
		return err
	})
	if err != nil || !over || !left {
		return over && err == nil, err
	}
	last, err := s.lastEnded(ctx, day, part, imported)
	return err == nil && last.Before(time.Now().Add(-age)), err
}

// dayEnd is the end of the last job of a day, and the importedRows when it was read.
type dayEnd struct {
	at       time.Time // zero without jobs
	imported string
}

// lastEnded returns the end of the last job of a day without unfinished jobs. It reads all of the day once, and again
// after an import.
func (s *Tables) lastEnded(ctx context.Context, day time.Time, part string, imported string) (time.Time, error) {
	if end, known := s.ended.Load(day); known && end.(dayEnd).imported == imported {
		return end.(dayEnd).at, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var at pgtype.Timestamptz
	err := pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '10min'; SET LOCAL enable_seqscan = on; SET LOCAL seq_page_cost = 0; SET LOCAL cpu_tuple_cost = 0.01`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT max(ended_at) FROM `+part, pgx.QueryExecModeExec).Scan(&at)
	})
	if err != nil {
		return time.Time{}, pg.Translate("judge a day", err)
	}
	s.ended.Store(day, dayEnd{at.Time, imported})
	return at.Time, nil
}
