package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// labeledPage is how many queued jobs one statement looks at. Labels are not indexed: each submit would pay for the index, and
// now each search pays for the jobs that it passes.
const labeledPage = 10_000

// hasLabels is SQL for whether a job j of the batch b, which may be none, has the labels $2, if there are any. Jobs of open batches have none.
const hasLabels = `(j.batch_id = '` + string(pg.NilID) + `' OR b.sealed_at IS NOT NULL)
	AND ($2::jsonb IS NULL OR coalesce(b.labels::jsonb, '{}') || coalesce(('{' || rtrim(j.identity, ',') || '}')::jsonb -> 'labels', '{}') @> $2::jsonb)`

// queuedLabeled looks at the next $9 queued jobs of tenant $1 in the class $3, behind a place in the index ($5 to $8) and up to the
// batch $4, and reports which have the labels $2.
const queuedLabeled = `
SELECT j.batch_id, j.priority, j.lane, j.id, (` + hasLabels + `) IS TRUE
FROM (SELECT batch_id, priority, lane, id, identity FROM live_jobs
	WHERE state = 'queued' AND pool = $3 AND tenant_id = $1 AND batch_id <= $4 AND (batch_id, priority, lane, id) > ($5::uuid, $6::integer, $7::integer, $8::uuid)
	ORDER BY tenant_id, batch_id, priority, lane, id LIMIT $9) j LEFT JOIN batches b ON b.id = j.batch_id
ORDER BY j.batch_id, j.priority, j.lane, j.id`

// underwayLabeled returns the jobs in a state of tenant $1 that have the labels $2, of the batch $3 if one is named. There are never more
// of them than the windows and the fleet's slots.
func underwayLabeled(state job.State) string {
	return `
SELECT j.id FROM (SELECT id, batch_id, identity FROM live_jobs
	WHERE state = '` + string(state) + `' AND tenant_id = $1 AND ($3::uuid IS NULL OR batch_id = $3) ORDER BY tenant_id, batch_id) j LEFT JOIN batches b ON b.id = j.batch_id
WHERE ` + hasLabels
}

var cancelMany = cancel(`SELECT id FROM unnest($1::uuid[]) AS u (id)`)

// underway returns the jobs in a state to which a query applies.
func (s *Transitions) underway(ctx context.Context, tenant string, q store.CancelQuery, state job.State) (ids []pgtype.UUID, err error) {
	if q.State != "" && q.State != state {
		return nil, nil
	}
	var batch pgtype.UUID
	if q.Batch != "" {
		batch = pg.UUID(q.Batch)
	}
	err = s.db.Do(ctx, "find labels", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		rows, err := s.db.Pool.Query(ctx, underwayLabeled(state), t, pg.LabelsText(q.Labels), batch)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
		return err
	})
	sortIDs(ids)
	return ids, err
}

// sortIDs brings ids into the order in which rows are locked.
func sortIDs(ids []pgtype.UUID) {
	slices.SortFunc(ids, func(a, b pgtype.UUID) int { return bytes.Compare(a.Bytes[:], b.Bytes[:]) })
}

// eachQueued calls f with the queued jobs to which a query applies, some at a time, until f returns false. However many wait, each
// statement is bounded, and so is the memory. The jobs that f is called with may leave the queue or change their priority.
func (s *Transitions) eachQueued(ctx context.Context, tenant string, q store.CancelQuery, f func(ids []pgtype.UUID) (more bool, err error)) error {
	if q.State != "" && q.State != job.Queued {
		return nil
	}
	pools, err := s.read.PoolsOf(ctx, tenant)
	if err != nil {
		return err
	}
	for _, pool := range pools {
		at := &queuePlace{pool: pool, batch: pg.UUID(pg.NilID), priority: math.MinInt32, lane: -1, id: pg.UUID(pg.NilID)}
		upTo := pg.LastID
		if q.Batch != "" {
			at.batch, upTo = pg.UUID(q.Batch), q.Batch
		}
		for page := labeledPage; page == labeledPage; {
			var ids []pgtype.UUID
			err := s.db.Do(ctx, "find labels", func(ctx context.Context) (err error) {
				ids, page, err = s.labeledPage(ctx, tenant, q.Labels, upTo, at)
				return err
			})
			if err != nil {
				return err
			}
			sortIDs(ids)
			for chunk := range slices.Chunk(ids, cancelChunk) {
				if more, err := f(chunk); err != nil || !more {
					return err
				}
			}
		}
	}
	return nil
}

// labeledPage looks at the next jobs behind a place in the queue, which it moves, and returns how many there were.
func (s *Transitions) labeledPage(ctx context.Context, tenant string, labels map[string]string, upTo job.ID, at *queuePlace) (ids []pgtype.UUID, looked int, err error) {
	t, err := s.db.LookupTenant(ctx, tenant)
	if err != nil {
		return nil, 0, err
	}
	rows, err := s.db.Pool.Query(ctx, queuedLabeled, t, pg.LabelsText(labels), at.pool, pg.UUID(upTo), at.batch, at.priority, at.lane, at.id, labeledPage)
	if err != nil {
		return nil, 0, err
	}
	end := *at
	var has bool
	_, err = pgx.ForEachRow(rows, []any{&end.batch, &end.priority, &end.lane, &end.id, &has}, func() error {
		looked++
		if has {
			ids = append(ids, end.id)
		}
		return nil
	})
	if err == nil {
		*at = end
	}
	return ids, looked, err
}

// Prioritize implements store.Scheduler, a chunk at a time. Changes made before an error remain.
func (s *Transitions) Prioritize(ctx context.Context, tenant string, q store.PriorityQuery) (n int64, err error) {
	if len(q.Labels) == 0 && q.Batch == "" {
		return 0, fmt.Errorf("postgres: prioritize: %w: neither labels nor a batch given", job.ErrInvalid)
	}
	defer s.db.News.Requeued()
	statement := `
		WITH q AS (SELECT id FROM live_jobs WHERE id = ANY($1) AND state = 'queued' AND priority <> $2 ORDER BY id FOR UPDATE)
		UPDATE live_jobs j SET priority = $2 FROM q WHERE j.id = q.id`
	if q.DryRun {
		statement = `SELECT id FROM live_jobs WHERE id = ANY($1) AND state = 'queued' AND priority <> $2`
	}
	err = s.eachQueued(ctx, tenant, store.CancelQuery{Labels: q.Labels, Batch: q.Batch}, func(ids []pgtype.UUID) (more bool, err error) {
		return true, s.db.Do(ctx, "prioritize", func(ctx context.Context) error {
			tag, err := s.db.Pool.Exec(ctx, statement, ids, q.Priority)
			n += tag.RowsAffected()
			return err
		})
	})
	return n, err
}

// CancelMany implements store.Scheduler. It goes through the states as cancelRows does; each chunk has a deadline of its own.
func (s *Transitions) CancelMany(ctx context.Context, tenant string, q store.CancelQuery) (c store.Canceled, err error) {
	if len(q.Labels) == 0 && q.Batch == "" && q.State == "" {
		return c, fmt.Errorf("postgres: cancel many: %w: no filter given", job.ErrInvalid)
	}
	m := &canceler{s: s, canceled: &c, dry: q.DryRun, told: map[job.ID]bool{}}
	if err := m.underway(ctx, tenant, q, job.Running); err != nil {
		return c, err
	}
	m.until = time.Now().Add(s.cfg.CancelTime)
	err = s.eachQueued(ctx, tenant, q, func(ids []pgtype.UUID) (more bool, err error) {
		err = m.cancel(ctx, ids, job.Queued)
		return !c.More, err
	})
	if err != nil || c.More {
		return c, err
	}
	if err := m.underway(ctx, tenant, q, job.Dispatched); err != nil || c.More || q.DryRun {
		return c, err
	}
	m.until = time.Time{}
	return c, m.underway(ctx, tenant, q, job.Running) // jobs that began meanwhile
}

// canceler is one CancelMany under way.
type canceler struct {
	s        *Transitions
	canceled *store.Canceled
	dry      bool
	until    time.Time // zero: no limit
	told     map[job.ID]bool
}

func (m *canceler) underway(ctx context.Context, tenant string, q store.CancelQuery, state job.State) error {
	ids, err := m.s.underway(ctx, tenant, q, state)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(ids, cancelChunk) {
		if err := m.cancel(ctx, chunk, state); err != nil || m.canceled.More {
			return err
		}
	}
	return nil
}

// cancel cancels jobs that were found in a state. After until, if that is not zero and some were canceled, it leaves the rest.
func (m *canceler) cancel(ctx context.Context, ids []pgtype.UUID, state job.State) error {
	if m.dry {
		if state != job.Running {
			m.canceled.Ended += int64(len(ids))
			return nil
		}
		for _, id := range ids {
			m.canceled.Running = append(m.canceled.Running, store.Canceling{LeaseRef: store.LeaseRef{Job: pg.JobID(id)}, State: job.Running})
		}
		return nil
	}
	if m.canceled.More = m.canceled.Ended > 0 && !m.until.IsZero() && time.Now().After(m.until); m.canceled.More {
		return nil
	}
	return m.s.db.Do(ctx, "cancel by label", func(ctx context.Context) error {
		rows, err := m.s.record(ctx, cancelMany, ids)
		for _, e := range rows {
			switch {
			case e.state != job.Running:
				m.canceled.Ended++
			case !m.told[e.id]:
				m.told[e.id] = true
				m.canceled.Running = append(m.canceled.Running, canceling(e))
			}
		}
		return err
	})
}
