package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// reapChunk bounds one statement of the reaper. SKIP LOCKED lets several reapers
// share the work instead of queueing up behind each other, and makes the order in
// which they lock rows irrelevant.
const reapChunk = 500

// overdue finds jobs that waited longer than their limit. It leaves out jobs of open uploads before it counts, so that
// these, however many, do not hide others. The list of uploads is read once, and is short.
var overdue = `SELECT id FROM live_jobs WHERE expires_at <= now() AND expires_at IS NOT NULL AND state IN ('queued', 'dispatched')
			AND batch_id <> ALL (ARRAY(SELECT id FROM batches WHERE sealed_at IS NULL))` + notHeld + `
		ORDER BY expires_at` + limited(1) + ` FOR NO KEY UPDATE SKIP LOCKED`

const whyExpired = `waited longer than expires_in`

// expire ends the jobs that are overdue.
var expire = `
WITH moved AS (
	UPDATE live_jobs j SET state = 'finished', outcome = 'expired', ended_at = now()
	FROM (` + overdue + `) i
	WHERE j.id = i.id AND j.state IN ('queued', 'dispatched')
		AND NOT EXISTS (SELECT FROM batches b WHERE b.id = j.batch_id AND b.sealed_at IS NULL)
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, 0::bigint AS lease, '' AS reason, j.worker, j.identity, j.earlier,
		` + bodyWith(`'`+whyExpired+`'::text`) + ` AS body, NULL::text AS attempt_outcome, '' AS message, j.started_at)` + recordTail

// unclaimedForLong queues jobs again that were offered to the workers for so long that the choice should be made anew.
// The generation stays; the next schedule increments it, and the old message claims nothing.
var unclaimedForLong = `
UPDATE live_jobs j SET state = 'queued'
FROM (SELECT id FROM live_jobs WHERE state = 'dispatched' AND dispatched_at < now() - $1 * interval '1 millisecond'` + notHeld + `
	ORDER BY tenant_id, batch_id` + limited(2) + ` FOR NO KEY UPDATE SKIP LOCKED) i
WHERE j.id = i.id AND j.state || '' = 'dispatched'`

// sweepStep is one step of a sweep. It ends about when its time is up, with an error or without; the next sweep does
// the rest.
type sweepStep struct {
	name string
	do   func(ctx context.Context, st *store.ReapStats, until time.Time) error
}

// sweep runs steps one after the other. After a failed step it runs the others: an obstacle of one need not affect
// another.
func (s *Transitions) sweep(ctx context.Context, st *store.ReapStats, steps ...sweepStep) error {
	var errs []error
	for _, step := range steps {
		errs = append(errs, st.Time(step.name, func() error { return step.do(ctx, st, time.Now().Add(s.cfg.CancelTime)) }))
	}
	return errors.Join(errs...)
}

// Sweep is this package's part of store.Scheduler's Reap.
func (s *Transitions) Sweep(ctx context.Context, st *store.ReapStats) error {
	return s.sweep(ctx, st, sweepStep{"expired", s.reapExpired}, sweepStep{"outlived", s.reapOutlived}, sweepStep{"unclaimed", s.reapUnclaimed},
		sweepStep{"abandoned", s.reapAbandoned}, sweepStep{"canceled", s.reapCanceled})
}

// ReapLeases implements store.Scheduler.
func (s *Transitions) ReapLeases(ctx context.Context) (st store.ReapStats, err error) {
	err = s.sweep(ctx, &st, sweepStep{"acquit", s.acquit}, sweepStep{"lease", s.reapLeases}, sweepStep{"condemn", s.condemn})
	return st, err
}

func (s *Transitions) reapExpired(ctx context.Context, st *store.ReapStats, until time.Time) error {
	d := dueEnd{op: "reap expired", sql: expire, due: overdue, outcome: job.Expired, message: whyExpired}
	return s.endDue(ctx, d, reapChunk, until, func(recordedRow) { st.JobsExpired++ })
}

func (s *Transitions) reapUnclaimed(ctx context.Context, st *store.ReapStats, until time.Time) error {
	const op = "reap unclaimed"
	return pg.Chunks(reapChunk, until, func(c pg.Chunk) (n int, err error) {
		err = s.db.Urgent(ctx, op, func(ctx context.Context) error {
			tag, err := s.db.Pool.Exec(ctx, unclaimedForLong, s.cfg.TakeBackAfter.Milliseconds(), c.Limit, c.Offset)
			n = int(tag.RowsAffected())
			return err
		})
		if n > 0 {
			st.JobsTakenBack += int64(n)
			s.db.News.Requeued()
		}
		return n, err
	}, func(_ pg.Chunk, cause error) (bool, error) { return s.db.Refused(ctx, op, cause) })
}

// reapCanceled continues cancels of batches: abandoned ones, and those whose caller died or left. It takes a second in
// all, so that the rest of the reaping does not wait for a batch of a million; each round reports the running jobs.
func (s *Transitions) reapCanceled(ctx context.Context, st *store.ReapStats, until time.Time) error {
	batches, err := s.db.QueryBatches(ctx, `
		SELECT b.id FROM batch_counts c JOIN batches b ON b.id = c.batch_id
		WHERE c.ended_at IS NULL AND b.cancel_requested`)
	if err != nil {
		return err
	}
	var errs []error
	for _, b := range batches {
		running, n, err := s.cancelRows(ctx, b, until)
		st.JobsCanceled += n
		st.Stopping = append(st.Stopping, running...)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
