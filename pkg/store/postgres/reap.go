package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// reapChunk bounds one statement of the reaper. SKIP LOCKED lets several reapers
// share the work instead of queueing up behind each other, and makes the order in
// which they lock rows irrelevant.
const reapChunk = 500

// reapMany does so where rows are small and nothing follows from them.
const reapMany = 5000

// expire ends jobs that waited for longer than they wanted to. Those of uploads that
// go on are left out before they are counted: however many there are, they do not stand
// before others. The list of uploads is read once, and is short.
var expire = fmt.Sprintf(`
WITH moved AS (
	UPDATE live_jobs j SET state = 'finished', outcome = 'expired', ended_at = now()
	FROM (SELECT id FROM live_jobs WHERE expires_at <= now() AND expires_at IS NOT NULL AND state IN ('queued', 'dispatched')
			AND batch_id <> ALL (ARRAY(SELECT id FROM batches WHERE sealed_at IS NULL))
		ORDER BY expires_at LIMIT %d FOR NO KEY UPDATE SKIP LOCKED) i
	WHERE j.id = i.id AND j.state IN ('queued', 'dispatched')
		AND NOT EXISTS (SELECT FROM batches b WHERE b.id = j.batch_id AND b.sealed_at IS NULL)
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, 0::bigint AS lease, '' AS reason, j.worker, j.identity, j.earlier,
		%s AS body, NULL::text AS attempt_outcome, '' AS message, j.started_at)`,
	reapChunk, bodyWith(`'waited longer than expires_in'::text`)) + recordTail

// unclaimedForLong puts jobs back that were offered to the workers for so long
// that the choice should be made anew. The generation stays; the next schedule
// counts it up, and the old message claims nothing.
const unclaimedForLong = `
UPDATE live_jobs j SET state = 'queued'
FROM (SELECT id FROM live_jobs WHERE state = 'dispatched' AND dispatched_at < now() - $1 * interval '1 millisecond'
	ORDER BY tenant_id, batch_id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) i
WHERE j.id = i.id AND j.state || '' = 'dispatched'`

// Reap implements store.Scheduler. A step that fails keeps none of the others from
// being made: what is in one's way need not be in another's.
func (s *Store) Reap(ctx context.Context) (st store.ReapStats, err error) {
	var errs []error
	for _, step := range []func(context.Context, *store.ReapStats) error{
		s.acquit, s.reapLeases, s.condemn, s.reapExpired, s.reapUnclaimed, s.reapAbandoned, s.reapCanceled, s.reapOpenBatches, s.forgetKeys, s.forgetWorkers, s.reapOverrides,
	} {
		errs = append(errs, step(ctx, &st))
	}
	return st, errors.Join(errs...)
}

func (s *Store) reapExpired(ctx context.Context, st *store.ReapStats) error {
	for {
		var rows []ended
		err := s.urgent(ctx, "reap expired", func(ctx context.Context) (err error) {
			rows, err = s.record(ctx, expire)
			return err
		})
		st.JobsExpired += int64(len(rows))
		if err != nil || len(rows) < reapChunk {
			return err
		}
	}
}

func (s *Store) reapUnclaimed(ctx context.Context, st *store.ReapStats) error {
	return s.urgent(ctx, "reap unclaimed", func(ctx context.Context) error {
		tag, err := s.pool.Exec(ctx, unclaimedForLong, s.cfg.TakeBackAfter.Milliseconds(), reapChunk)
		st.JobsTakenBack += tag.RowsAffected()
		return err
	})
}

// reapCanceled goes on with cancels of batches: those that are abandoned, and
// those whose caller died or left on the way. It takes a second in all, so that
// the rest of the reaping does not wait for a batch of a million; what runs is
// told in each round.
func (s *Store) reapCanceled(ctx context.Context, st *store.ReapStats) error {
	batches, err := s.batchesWhere(ctx, `
		SELECT b.id FROM batch_counts c JOIN batches b ON b.id = c.batch_id
		WHERE c.ended_at IS NULL AND b.cancel_requested`)
	if err != nil {
		return err
	}
	until := time.Now().Add(s.cancelTime)
	var errs []error
	for _, b := range batches {
		running, n, err := s.cancelRows(ctx, b, until)
		st.JobsCanceled += n
		st.Stopping = append(st.Stopping, running...)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// reapOpenBatches drops what was opened and left, and finishes interrupted drops. It takes
// a second in all, as reapCanceled does.
func (s *Store) reapOpenBatches(ctx context.Context, st *store.ReapStats) error {
	batches, err := s.batchesWhere(ctx, `
		SELECT id FROM batches WHERE sealed_at IS NULL
			AND (dropped_at IS NOT NULL OR appended_at < now() - $1 * interval '1 millisecond')`, s.cfg.OpenBatchTTL.Milliseconds())
	if err != nil {
		return err
	}
	until := time.Now().Add(s.cancelTime)
	var errs []error
	for _, b := range batches {
		var done bool
		errs = append(errs, s.do(ctx, "reap a batch", func(ctx context.Context) (err error) {
			if err := s.abandon(ctx, b); err != nil {
				return err
			}
			done, err = s.removeDropped(ctx, b, until)
			return err
		}))
		if done {
			st.BatchesDropped++
		}
	}
	return errors.Join(errs...)
}

func (s *Store) batchesWhere(ctx context.Context, sql string, args ...any) (ids []job.ID, err error) {
	err = s.do(ctx, "reap batches", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (job.ID, error) {
			var id pgtype.UUID
			err := row.Scan(&id)
			return jobID(id), err
		})
		return err
	})
	return ids, err
}

// forgetKeys deletes old idempotency keys, the oldest first.
func (s *Store) forgetKeys(ctx context.Context, _ *store.ReapStats) error {
	return s.drain(ctx, "forget keys", `
		DELETE FROM idempotency_keys k USING (
			SELECT tenant_id, key FROM idempotency_keys WHERE created_at < now() - $1 * interval '1 millisecond'
			ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED) old
		WHERE k.tenant_id = old.tenant_id AND k.key = old.key`, s.cfg.KeyTTL)
}

// workerGone is how long after its last word a worker is still listed among all of them.
// Names come and go with the pods of a fleet.
const workerGone = 24 * time.Hour

// forgetWorkers deletes the workers that will not come back. What is cordoned stays: a host
// that was away for long is not to take jobs when it is back.
func (s *Store) forgetWorkers(ctx context.Context, _ *store.ReapStats) error {
	return s.drain(ctx, "forget workers", `
		DELETE FROM workers w USING (
			SELECT id FROM workers WHERE seen_at < now() - $1 * interval '1 millisecond' AND cordoned_at IS NULL
			ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED) old
		WHERE w.id = old.id`, workerGone)
}

// drain has a statement delete what is older than age ($1) until it finds no more, $2 rows
// at a time.
func (s *Store) drain(ctx context.Context, op, sql string, age time.Duration) error {
	for {
		var n int64
		err := s.do(ctx, op, func(ctx context.Context) error {
			tag, err := s.pool.Exec(ctx, sql, age.Milliseconds(), reapMany)
			n = tag.RowsAffected()
			return err
		})
		if err != nil || n < reapMany {
			return err
		}
	}
}
