package lifecycle

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// takeFrom releases the running ones of some jobs ($7), or the jobs on a worker ($8). Rows are locked in the order of
// ids, as everywhere.
var takeFrom = releaseFrom(fmt.Sprintf(`
	SELECT j.id, j.lease, j.worker, $5::text AS reason, $6::text AS message, false AS blamed FROM live_jobs j JOIN (
		SELECT id FROM live_jobs WHERE state = 'running' AND $8 = '' AND id = ANY ($7::uuid[])
		UNION ALL
		SELECT id FROM (SELECT id, worker FROM live_jobs WHERE state = 'running' AND $8 <> '' ORDER BY tenant_id, batch_id) r WHERE r.worker = $8) q ON q.id = j.id
	WHERE j.state || '' = 'running' ORDER BY j.id LIMIT %d FOR NO KEY UPDATE OF j`, store.MaxRequeue))

// untake queues dispatched, unclaimed jobs: after the next schedule the old message claims nothing.
const untake = `
UPDATE live_jobs j SET state = 'queued'
FROM (SELECT id FROM live_jobs WHERE id = ANY ($1::uuid[]) AND state || '' = 'dispatched' ORDER BY id FOR NO KEY UPDATE) i
WHERE j.id = i.id AND j.state || '' = 'dispatched'`

// endWait ends the backoff of jobs queued after an infrastructure failure.
const endWait = `
UPDATE live_jobs j SET not_before = NULL
FROM (SELECT id FROM live_jobs WHERE id = ANY ($1::uuid[]) AND state || '' = 'queued' AND not_before > now() ORDER BY id FOR NO KEY UPDATE) i
WHERE j.id = i.id AND j.state || '' = 'queued'`

// Requeue implements store.Steering.
func (s *Transitions) Requeue(ctx context.Context, a *store.Action, q store.Requeue) (taken []store.Canceling, err error) {
	reason := job.ReasonPreempted
	if q.Worker != "" {
		reason = job.ReasonDrained
	}
	defer s.db.News.Requeued()
	err = s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := missing(ctx, tx, q.Jobs); err != nil {
			return false, err
		}
		ids := pg.UUIDs(q.Jobs)
		rows, err := tx.Query(ctx, takeFrom, s.cfg.InfraBudget, s.cfg.RetryDelay.Milliseconds(), s.cfg.PoisonAfter, s.cfg.PoisonWait.Milliseconds(),
			string(reason), pg.CleanText("requeued by an operator: "+a.Reason), ids, q.Worker)
		if err != nil {
			return false, err
		}
		ends, err := scanEnded(rows)
		if err != nil {
			return false, err
		}
		taken = taken[:0]
		for _, e := range ends {
			taken = append(taken, store.Canceling{LeaseRef: store.LeaseRef{Job: e.id, Lease: e.lease}, Worker: e.worker, State: e.state})
		}
		undone, err := tx.Exec(ctx, untake, ids)
		if err != nil {
			return false, err
		}
		ended, err := tx.Exec(ctx, endWait, ids)
		if err != nil {
			return false, err
		}
		n := int64(len(taken)) + undone.RowsAffected() + ended.RowsAffected()
		return n > 0, pg.Detail(a, map[string]int64{"running": int64(len(taken)), "dispatched": undone.RowsAffected(), "waiting": ended.RowsAffected()})
	})
	return taken, err
}

// missing is job.ErrNotFound if one of the jobs does not exist.
func missing(ctx context.Context, tx pgx.Tx, jobs []job.ID) error {
	days, of := pg.ByDay(jobs, func(id job.ID) job.ID { return id })
	for _, day := range days {
		var id *pgtype.UUID
		err := tx.QueryRow(ctx, `SELECT (SELECT i.id FROM unnest($1::uuid[]) AS i (id) WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = i.id AND `+day.In("j.id")+` OFFSET 0) LIMIT 1)`,
			pg.UUIDs(of[day])).Scan(&id)
		if err != nil {
			return err
		}
		if id != nil {
			return fmt.Errorf("%w: job %s", job.ErrNotFound, pg.JobID(*id))
		}
	}
	return nil
}
