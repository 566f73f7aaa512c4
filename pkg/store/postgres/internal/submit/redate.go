package submit

import (
	"context"
	"errors"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// redateMany is how many jobs one statement of redate changes.
const redateMany = 5000

// redateJobs has the time that jobs of a sealed batch may wait begin with the seal. It finds them
// behind all other jobs in the index on expires_at.
const redateJobs = `
UPDATE live_jobs j SET expires_at = i.sealed_at + (j.expires_at - j.created_at - ` + notSealed + `)
FROM (SELECT q.id, b.sealed_at FROM batches b, LATERAL (
		SELECT id FROM live_jobs WHERE ` + isNotSealed + ` AND expires_at IS NOT NULL AND state IN ('queued', 'dispatched') AND batch_id = b.id
		ORDER BY expires_at LIMIT $2 OFFSET $3) q
	WHERE b.id = $1 AND b.sealed_at IS NOT NULL ORDER BY q.id) i
WHERE j.id = i.id AND j.state || '' IN ('queued', 'dispatched')`

// redate does that until a time. The batch is marked until all of its jobs are done.
func (s *Submitter) redate(ctx context.Context, batch job.ID, until time.Time) error {
	const op = "redate a batch"
	isDone := false
	err := pg.Chunks(redateMany, until, func(c pg.Chunk) (n int, err error) {
		err = s.db.Do(ctx, op, func(ctx context.Context) error {
			tag, err := s.db.Pool.Exec(ctx, redateJobs, pg.UUID(batch), c.Limit, c.Offset)
			n = int(tag.RowsAffected())
			return err
		})
		isDone = err == nil && n < c.Limit
		return n, err
	}, func(_ pg.Chunk, cause error) (bool, error) { return s.db.Refused(ctx, op, cause) })
	if err != nil || !isDone {
		return err
	}
	return s.db.Do(ctx, op, func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, `UPDATE batches SET expiring = false WHERE id = $1 AND expiring`, pg.UUID(batch))
		return err
	})
}

// redateSealed goes on with the batches that were too large for the call that sealed them.
func (s *Submitter) redateSealed(ctx context.Context) error {
	batches, err := s.db.QueryBatches(ctx, `SELECT id FROM batches WHERE expiring AND sealed_at IS NOT NULL ORDER BY id LIMIT 1000`)
	if err != nil {
		return err
	}
	until := time.Now().Add(s.cfg.DropTime)
	var errs []error
	for _, b := range batches {
		errs = append(errs, s.redate(ctx, b, until))
		if time.Now().After(until) {
			break
		}
	}
	return errors.Join(errs...)
}

// waitOf is SQL for how long a job j of a batch that was sealed at a time may wait.
func waitOf(sealedAt string) string {
	return `CASE WHEN j.` + isNotSealed + ` THEN j.expires_at - j.created_at - ` + notSealed + `
		WHEN j.expires_at > ` + sealedAt + ` THEN j.expires_at - ` + sealedAt + ` ELSE j.expires_at - j.created_at END`
}
