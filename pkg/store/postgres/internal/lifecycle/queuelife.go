package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// outlivedJobs finds the jobs of a state that have waited in the queue for longer than $2 ms; LIMIT and OFFSET are its
// arguments from n on. Ids less than $1 are of jobs that may have: the server does not look into the partitions of later
// days. Jobs of open batches go with their batches (submit.reapOpenBatches).
func outlivedJobs(state job.State, order string, n int) string {
	return `SELECT id FROM live_jobs WHERE state = '` + string(state) + `' AND id < $1 AND created_at < now() - $2::bigint * interval '1 millisecond'
			AND batch_id <> ALL (ARRAY(SELECT id FROM batches WHERE sealed_at IS NULL))` + notHeld + `
		ORDER BY ` + order + limited(n) + ` FOR NO KEY UPDATE SKIP LOCKED`
}

const whyOutlived = `waited in the queue for longer than `

// outlive ends these jobs.
func outlive(state job.State, order string) string {
	return `
WITH moved AS (
	UPDATE live_jobs j SET state = 'finished', outcome = 'expired', ended_at = now()
	FROM (` + outlivedJobs(state, order, 4) + `) i
	WHERE j.id = i.id AND j.state || '' = '` + string(state) + `'
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, 0::bigint AS lease, '' AS reason, j.worker, j.identity, j.earlier,
		` + bodyWith(`'`+whyOutlived+`' || $3::text || ', the longest that this fleet allows'`) + ` AS body, NULL::text AS attempt_outcome, '' AS message, j.started_at)` + recordTail
}

const (
	queuedOrder     = "pool, tenant_id, batch_id, priority, lane, id"
	dispatchedOrder = "tenant_id, batch_id"
)

var outlived = []string{outlive(job.Queued, queuedOrder), outlive(job.Dispatched, dispatchedOrder)}

// reapOutlived ends jobs that no worker took within the longest wait of a job. A job that waits for ever would keep its
// day among the days that each statement of the queue reads, and its partition from being dropped.
func (s *Transitions) reapOutlived(ctx context.Context, st *store.ReapStats, until time.Time) error {
	if s.cfg.QueueLife <= 0 {
		return nil
	}
	life := s.cfg.QueueLife
	args := []any{pg.UUID(job.FirstIDAt(time.Now().Add(-life))), life.Milliseconds(), life.String()}
	var errs []error
	for i, due := range []string{outlivedJobs(job.Queued, queuedOrder, 3), outlivedJobs(job.Dispatched, dispatchedOrder, 3)} {
		d := dueEnd{op: "reap outlived", sql: outlived[i], args: args, due: due, dueArgs: args[:2], outcome: job.Expired, message: whyOutlived + life.String()}
		errs = append(errs, s.endDue(ctx, d, reapChunk, until, func(recordedRow) { st.JobsExpired++ }))
	}
	return errors.Join(errs...)
}
