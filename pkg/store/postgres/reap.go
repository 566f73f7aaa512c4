package postgres

import (
	"context"
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

// takeBack ends leases that nobody prolonged, by the server's clock alone. There
// is no index on lease ends; the one on running rows is small.
//
// Of the jobs that a worker took along, those are blamed for its end that had begun
// not long before and were blamed most often so far: at first all of them. Claim
// sees to it that of those which are one step from being poison a worker runs one
// at a time, and that one is only blamed alone, so that no job is given up
// because it was in bad company.
var takeBack = giveBack(fmt.Sprintf(`
	WITH beside AS MATERIALIZED (
		SELECT worker, max(kills) AS most FROM (SELECT worker, kills FROM jobs WHERE state = 'running' ORDER BY tenant_id, batch_id) r
		WHERE kills > 0 GROUP BY worker),
	ended AS MATERIALIZED (
		SELECT id, lease, worker, kills, lease_until - started_at < interval '%d seconds' AS soon FROM jobs
		WHERE state = 'running' AND lease_until < now() ORDER BY tenant_id, batch_id LIMIT %d FOR NO KEY UPDATE SKIP LOCKED)
	SELECT id, lease, worker, 'lost' AS reason, 'the lease of worker ' || worker || ' ended' AS message,
		soon AND kills >= coalesce((SELECT most FROM beside b WHERE b.worker = e.worker), 0)
			AND (kills + 1 < $3 OR count(*) OVER (PARTITION BY worker, kills) = 1) AS blamed
	FROM ended e`,
	int(poisonWithin.Seconds()), reapChunk))

// poisonWithin is how soon after a job's start its lease must have ended for the
// job to be suspected of its worker's end. Whatever happened later has many causes.
const poisonWithin = 2 * time.Minute

// expire ends jobs that waited for longer than they wanted to. Those of uploads that
// go on are left out before they are counted: however many there are, they do not stand
// before others. The list of uploads is read once, and is short.
var expire = fmt.Sprintf(`
WITH moved AS (
	UPDATE jobs j SET state = 'finished', outcome = 'expired', ended_at = now()
	FROM (SELECT id FROM jobs WHERE expires_at <= now() AND expires_at IS NOT NULL AND state IN ('queued', 'dispatched')
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
UPDATE jobs j SET state = 'queued'
FROM (SELECT id FROM jobs WHERE state = 'dispatched' AND dispatched_at < now() - $1 * interval '1 millisecond'
	ORDER BY tenant_id, batch_id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) i
WHERE j.id = i.id AND j.state || '' = 'dispatched'`

// Reap implements store.Scheduler.
func (s *Store) Reap(ctx context.Context) (st store.ReapStats, err error) {
	for _, step := range []func(context.Context, *store.ReapStats) error{
		s.reapLeases, s.reapExpired, s.reapUnclaimed, s.reapAbandoned, s.reapCanceled, s.reapOpenBatches, s.forgetKeys,
	} {
		if err := step(ctx, &st); err != nil {
			return st, err
		}
	}
	return st, nil
}

func (s *Store) reapLeases(ctx context.Context, st *store.ReapStats) error {
	for {
		var rows []ended
		err := s.do(ctx, "reap leases", func(ctx context.Context) (err error) {
			rows, err = s.record(ctx, takeBack, s.cfg.InfraBudget, s.cfg.RetryDelay.Milliseconds(), s.cfg.PoisonAfter)
			return err
		})
		st.LeasesExpired += int64(len(rows))
		for _, e := range rows {
			if e.state == job.Finished {
				st.JobsLost++
			}
		}
		if err != nil || len(rows) < reapChunk {
			return err
		}
	}
}

func (s *Store) reapExpired(ctx context.Context, st *store.ReapStats) error {
	for {
		var rows []ended
		err := s.do(ctx, "reap expired", func(ctx context.Context) (err error) {
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
	return s.do(ctx, "reap unclaimed", func(ctx context.Context) error {
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
	for _, b := range batches {
		running, n, err := s.cancelRows(ctx, b, until)
		st.JobsCanceled += n
		st.Stopping = append(st.Stopping, running...)
		if err != nil {
			return err
		}
	}
	return nil
}

// reapOpenBatches drops what was opened and left, and finishes interrupted drops.
func (s *Store) reapOpenBatches(ctx context.Context, st *store.ReapStats) error {
	batches, err := s.batchesWhere(ctx, `
		SELECT id FROM batches WHERE sealed_at IS NULL
			AND (dropped_at IS NOT NULL OR appended_at < now() - $1 * interval '1 millisecond')`, s.cfg.OpenBatchTTL.Milliseconds())
	if err != nil {
		return err
	}
	for _, b := range batches {
		if err := s.DropBatch(ctx, b); err != nil {
			return err
		}
		st.BatchesDropped++
	}
	return nil
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

// forgetKeys deletes old idempotency keys.
func (s *Store) forgetKeys(ctx context.Context, _ *store.ReapStats) error {
	return s.do(ctx, "forget keys", func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, `DELETE FROM idempotency_keys WHERE created_at < now() - $1 * interval '1 millisecond'`,
			s.cfg.KeyTTL.Milliseconds())
		return err
	})
}
