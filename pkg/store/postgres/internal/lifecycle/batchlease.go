package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// keepBatches renews leases, including those that ended a moment ago and were not noticed.
const keepBatches = `
UPDATE batch_leases l SET until = now() + l.ttl * interval '1 millisecond'
FROM batches b
WHERE l.batch_id = ANY ($1) AND b.id = l.batch_id AND b.tenant_id = $2 AND b.sealed_at IS NOT NULL AND l.over_at IS NULL
RETURNING l.batch_id, l.ttl`

// KeepBatch implements store.Submitter.
func (s *Transitions) KeepBatch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error) {
	if _, err := s.KeepBatches(ctx, tenant, []job.ID{id}); err != nil {
		return nil, err
	}
	b, err := s.read.Batch(ctx, tenant, id)
	if err == nil && b.Abandoned {
		return nil, fmt.Errorf("postgres: %w", fmt.Errorf("%w: the lease of batch %s ended, and with it the batch", job.ErrLost, id))
	}
	return b, err
}

// KeepBatches implements store.Submitter.
func (s *Transitions) KeepBatches(ctx context.Context, tenant string, batches []job.ID) (kept map[job.ID]time.Duration, err error) {
	ids := pg.UUIDs(batches)
	err = s.db.Do(ctx, "keep batches", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, keepBatches, ids, t)
		if err != nil {
			return err
		}
		kept = map[job.ID]time.Duration{}
		var id pgtype.UUID
		var ms int64
		_, err = pgx.ForEachRow(rows, []any{&id, &ms}, func() error {
			kept[pg.JobID(id)] = time.Duration(ms) * time.Millisecond
			return nil
		})
		return err
	})
	return kept, err
}

// closeLeases ends the leases of batches that are done.
var closeLeases = `
WITH done AS (
	SELECT l.batch_id FROM batch_leases l JOIN batch_counts c ON c.batch_id = l.batch_id
	WHERE l.over_at IS NULL AND c.ended_at IS NOT NULL ORDER BY l.batch_id` + limited(1) + ` FOR NO KEY UPDATE OF l SKIP LOCKED)
UPDATE batch_leases l SET over_at = now() FROM done d WHERE l.batch_id = d.batch_id RETURNING l.batch_id`

// lapse abandons the batches with expired leases: it flags them, as a cancel does, and returns them.
var lapse = `
WITH overdue AS (
	SELECT l.batch_id FROM batch_leases l JOIN batch_counts c ON c.batch_id = l.batch_id
	WHERE l.over_at IS NULL AND l.until < now() AND c.ended_at IS NULL ORDER BY l.batch_id` + limited(1) + ` FOR NO KEY UPDATE OF l SKIP LOCKED),
marked AS (
	UPDATE batch_leases l SET over_at = now(), lapsed = true FROM overdue o
	WHERE l.batch_id = o.batch_id AND l.over_at IS NULL AND l.until < now() RETURNING l.batch_id)
UPDATE batches b SET cancel_requested = true FROM marked m WHERE b.id = m.batch_id RETURNING b.id`

// renew gives every client a whole new lease. While no dispatcher looked, clients could not renew either: an outage of
// dispatchers or the database must not look like a thousand lost clients.
const renew = `
UPDATE batch_leases l SET until = now() + l.ttl * interval '1 millisecond'
FROM (SELECT batch_id FROM batch_leases WHERE over_at IS NULL AND until < 'infinity' ORDER BY batch_id FOR NO KEY UPDATE) d
WHERE l.batch_id = d.batch_id`

// unwatched is how long no reaper may have looked before leases are renewed. The reaper looks every few seconds.
const unwatched = 15 * time.Second

// watch remembers when this process last looked at the leases of batches.
type watch struct {
	mu   sync.Mutex
	last time.Time
}

// reapAbandoned flags abandoned batches. reapCanceled, the next step, ends their jobs.
func (s *Transitions) reapAbandoned(ctx context.Context, st *store.ReapStats, until time.Time) error {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	if time.Since(s.watch.last) > unwatched {
		err := s.db.Do(ctx, "renew batch leases", func(ctx context.Context) error {
			_, err := s.db.Pool.Exec(ctx, renew)
			return err
		})
		if err != nil {
			return err
		}
	}
	s.watch.last = time.Now()
	if err := s.reapBatches(ctx, closeLeases, until, nil); err != nil {
		return err
	}
	return s.reapBatches(ctx, lapse, until, &st.BatchesAbandoned)
}

// reapBatches runs a statement that returns the batches that it changes, and counts them.
func (s *Transitions) reapBatches(ctx context.Context, sql string, until time.Time, n *int64) error {
	return pg.Chunks(reapChunk, until, func(c pg.Chunk) (int, error) {
		ids, err := s.db.QueryBatches(ctx, sql, c.Limit, c.Offset)
		if n != nil {
			*n += int64(len(ids))
		}
		return len(ids), err
	}, func(_ pg.Chunk, cause error) (bool, error) { return s.db.Refused(ctx, "reap batches", cause) })
}
