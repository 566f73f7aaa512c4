package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// outlive ends the jobs of a state that have waited in the queue for longer than $2 ms. Ids less than $1 are of jobs
// that may have: the server does not look into the partitions of later days. Jobs of open batches go
// with their batches (submit.reapOpenBatches).
func outlive(state job.State, order string) string {
	return fmt.Sprintf(`
WITH moved AS (
	UPDATE live_jobs j SET state = 'finished', outcome = 'expired', ended_at = now()
	FROM (SELECT id FROM live_jobs WHERE state = '%[1]s' AND id < $1 AND created_at < now() - $2::bigint * interval '1 millisecond'
			AND batch_id <> ALL (ARRAY(SELECT id FROM batches WHERE sealed_at IS NULL))
		ORDER BY %[2]s LIMIT %[3]d FOR NO KEY UPDATE SKIP LOCKED) i
	WHERE j.id = i.id AND j.state || '' = '%[1]s'
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, 0::bigint AS lease, '' AS reason, j.worker, j.identity, j.earlier,
		%[4]s AS body, NULL::text AS attempt_outcome, '' AS message, j.started_at)`,
		state, order, reapChunk, bodyWith(`'waited in the queue for longer than ' || $3::text || ', the longest that this fleet allows'`)) + recordTail
}

var outlived = []string{
	outlive(job.Queued, "pool, tenant_id, batch_id, priority, lane, id"),
	outlive(job.Dispatched, "tenant_id, batch_id"),
}

// reapOutlived ends jobs that no worker took in all the time that a job may wait. One that waits for ever keeps its
// day among the days that each statement of the queue looks at, and its partition from being dropped.
func (s *Transitions) reapOutlived(ctx context.Context, st *store.ReapStats) error {
	if s.cfg.QueueLife <= 0 {
		return nil
	}
	for _, sql := range outlived {
		var rows []ended
		err := s.db.Urgent(ctx, "reap outlived", func(ctx context.Context) (err error) {
			rows, err = s.record(ctx, sql, pg.UUID(job.FirstIDAt(time.Now().Add(-s.cfg.QueueLife))), s.cfg.QueueLife.Milliseconds(), s.cfg.QueueLife.String())
			return err
		})
		st.JobsExpired += int64(len(rows))
		if err != nil {
			return err
		}
	}
	return nil
}
