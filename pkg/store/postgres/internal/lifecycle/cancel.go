package lifecycle

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

const whyCanceled = `canceled before it ran`

// cancel ends waiting jobs and flags running ones. Its first part, from, selects the rows. The guard is checked again
// on the newest version of a row that a claim or a finish is changing, so exactly one of them wins.
func cancel(from string) string {
	return `
WITH moved AS (
	UPDATE live_jobs j SET cancel_requested = true,
		state = CASE j.state WHEN 'running' THEN 'running' ELSE 'canceled' END,
		outcome = CASE j.state WHEN 'running' THEN NULL ELSE 'canceled' END,
		ended_at = CASE j.state WHEN 'running' THEN NULL ELSE now() END
	FROM (` + from + `) i
	WHERE j.id = i.id AND j.state IN ('queued', 'dispatched', 'running')
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, CASE j.state WHEN 'running' THEN j.lease ELSE 0 END AS lease,
		'' AS reason, j.worker, j.identity, j.earlier, ` + bodyWith(`'`+whyCanceled+`'::text`) + ` AS body,
		NULL::text AS attempt_outcome, '' AS message, j.started_at)` + recordTail
}

var cancelOne = cancel(`SELECT $1::uuid AS id`)

// Cancel implements store.Scheduler. For a job that is terminal already the
// answer is its state; job.ErrNotFound if there is no such job.
func (s *Transitions) Cancel(ctx context.Context, id job.ID) (c store.Canceling, err error) {
	c.Job = id
	err = s.db.Do(ctx, "cancel", func(ctx context.Context) error {
		rows, err := s.record(ctx, cancelOne, pg.UUID(id))
		if err != nil {
			return err
		}
		if len(rows) == 1 {
			c = canceling(rows[0])
			return nil
		}
		err = s.db.Pool.QueryRow(ctx, `SELECT state FROM jobs WHERE id = $1 AND `+pg.OnDay("id", id), pg.UUID(id)).Scan(&c.State)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: job %s", job.ErrNotFound, id)
		}
		return err
	})
	return c, err
}

func canceling(e recordedRow) store.Canceling {
	c := store.Canceling{LeaseRef: store.LeaseRef{Job: e.id}, State: e.state}
	if e.state == job.Running {
		c.Lease, c.Worker = e.lease, e.worker
	}
	return c
}

// cancelChunk bounds how long one statement of a large cancel holds the counters.
const cancelChunk = 2000

// The rows of a batch ($1), a chunk at a time, through the index of each state; then in the order of ids, as in all
// statements. Once the batch is flagged, none of its jobs is scheduled any more, so the chunks come to an end. $2 are
// the pools that have rows in the state queued.
var (
	queuedOf = `
		SELECT q.id FROM batches b, unnest($2::text[]) AS p (pool), LATERAL (
			SELECT id FROM live_jobs WHERE state = 'queued' AND pool = p.pool AND tenant_id = b.tenant_id AND batch_id = b.id` + notHeld + `
			ORDER BY tenant_id, batch_id, priority LIMIT $3::bigint + $4::bigint) q
		WHERE b.id = $1 ORDER BY q.id` + limited(3)
	dispatchedOf = `
		SELECT q.id FROM batches b, LATERAL (
			SELECT id FROM live_jobs WHERE state = 'dispatched' AND tenant_id = b.tenant_id AND batch_id = b.id` + notHeld + `
			ORDER BY tenant_id, batch_id LIMIT $3::bigint + $4::bigint) q
		WHERE b.id = $1 AND $2::text[] IS NOT NULL ORDER BY q.id` + limited(3)

	cancelQueued     = cancel(queuedOf)
	cancelDispatched = cancel(dispatchedOf)
)

// runningOf finds the running jobs of a batch.
const runningOf = `
	SELECT q.id FROM batches b, LATERAL (
		SELECT id FROM live_jobs WHERE state = 'running' AND tenant_id = b.tenant_id AND batch_id = b.id ORDER BY tenant_id, batch_id) q
	WHERE b.id = $1 ORDER BY q.id`

// CancelBatch implements store.Scheduler.
func (s *Transitions) CancelBatch(ctx context.Context, batch job.ID) (running []store.Canceling, err error) {
	err = s.db.Do(ctx, "cancel batch", func(ctx context.Context) error {
		tag, err := s.db.Pool.Exec(ctx, `UPDATE batches SET cancel_requested = true WHERE id = $1 AND sealed_at IS NOT NULL`, pg.UUID(batch))
		if err == nil && tag.RowsAffected() == 0 {
			return fmt.Errorf("%w: batch %s", job.ErrNotFound, batch)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	running, _, err = s.cancelRows(ctx, batch, time.Now().Add(s.cfg.CancelTime))
	return running, err
}

// cancelRows cancels jobs of a flagged batch until there are none or time is up, and counts the jobs that it ended.
// Running jobs come first, because their workers must be notified however many others wait. It then goes through the
// states in lifecycle order, so that no job slips past it. With an error it returns its results so far.
func (s *Transitions) cancelRows(ctx context.Context, batch job.ID, until time.Time) (running []store.Canceling, n int64, err error) {
	told := map[store.LeaseRef]bool{}
	each := func(e recordedRow) {
		c := canceling(e)
		if e.state != job.Running {
			n++
		} else if !told[c.LeaseRef] {
			told[c.LeaseRef] = true
			running = append(running, c)
		}
	}
	if err := s.cancelRunning(ctx, batch, each); err != nil {
		return running, n, err
	}
	pools, err := s.read.Pools(ctx)
	if err != nil {
		return running, n, err
	}
	for _, d := range []dueEnd{{sql: cancelQueued, due: queuedOf}, {sql: cancelDispatched, due: dispatchedOf}} {
		d.op, d.outcome, d.message = "cancel batch", job.OutcomeCanceled, whyCanceled
		d.args = []any{pg.UUID(batch), pools}
		d.dueArgs = d.args
		if err := s.endDue(ctx, d, cancelChunk, until, each); err != nil {
			return running, n, err
		}
	}
	return running, n, s.cancelRunning(ctx, batch, each)
}

// cancelRunning flags the running jobs of a batch. It passes over a row that PostgreSQL refuses: its worker runs it to
// its end.
func (s *Transitions) cancelRunning(ctx context.Context, batch job.ID, each func(recordedRow)) error {
	const op = "cancel batch"
	var ids []pgtype.UUID
	err := s.db.Do(ctx, op, func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, runningOf, pg.UUID(batch))
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
		return err
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	return pg.Apart(ids, func(part []pgtype.UUID) error {
		return s.db.Do(ctx, op, func(ctx context.Context) error {
			rows, err := s.record(ctx, cancelMany, part)
			for _, e := range rows {
				each(e)
			}
			return err
		})
	}, func(_ pgtype.UUID, cause error) error {
		_, err := s.db.Refused(ctx, op, cause)
		return err
	})
}
