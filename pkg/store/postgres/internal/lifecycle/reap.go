package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/store"
)

// reapChunk bounds one statement of the reaper. SKIP LOCKED lets several reapers
// share the work instead of queueing up behind each other, and makes the order in
// which they lock rows irrelevant.
const reapChunk = 500

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

// Sweep is this package's part of store.Scheduler's Reap. A step that fails keeps none of
// the others from being made: what is in one's way need not be in another's.
func (s *Transitions) Sweep(ctx context.Context, st *store.ReapStats) error {
	var errs []error
	for _, step := range []func(context.Context, *store.ReapStats) error{
		s.acquit, s.reapLeases, s.condemn, s.reapExpired, s.reapOutlived, s.reapUnclaimed, s.reapAbandoned, s.reapCanceled,
	} {
		errs = append(errs, step(ctx, st))
	}
	return errors.Join(errs...)
}

func (s *Transitions) reapExpired(ctx context.Context, st *store.ReapStats) error {
	for {
		var rows []ended
		err := s.db.Urgent(ctx, "reap expired", func(ctx context.Context) (err error) {
			rows, err = s.record(ctx, expire)
			return err
		})
		st.JobsExpired += int64(len(rows))
		if err != nil || len(rows) < reapChunk {
			return err
		}
	}
}

func (s *Transitions) reapUnclaimed(ctx context.Context, st *store.ReapStats) error {
	return s.db.Urgent(ctx, "reap unclaimed", func(ctx context.Context) error {
		tag, err := s.db.Pool.Exec(ctx, unclaimedForLong, s.cfg.TakeBackAfter.Milliseconds(), reapChunk)
		st.JobsTakenBack += tag.RowsAffected()
		return err
	})
}

// reapCanceled goes on with cancels of batches: those that are abandoned, and
// those whose caller died or left on the way. It takes a second in all, so that
// the rest of the reaping does not wait for a batch of a million; what runs is
// told in each round.
func (s *Transitions) reapCanceled(ctx context.Context, st *store.ReapStats) error {
	batches, err := s.db.BatchesWhere(ctx, `
		SELECT b.id FROM batch_counts c JOIN batches b ON b.id = c.batch_id
		WHERE c.ended_at IS NULL AND b.cancel_requested`)
	if err != nil {
		return err
	}
	until := time.Now().Add(s.cfg.CancelTime)
	var errs []error
	for _, b := range batches {
		running, n, err := s.cancelRows(ctx, b, until)
		st.JobsCanceled += n
		st.Stopping = append(st.Stopping, running...)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
