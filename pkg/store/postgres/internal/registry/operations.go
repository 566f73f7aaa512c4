package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// NoteAction implements store.Operations.
func (s *Registry) NoteAction(ctx context.Context, a *store.Action) error {
	return s.db.Do(ctx, "note an action", func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error { return pg.WriteAction(ctx, tx, a) })
	})
}

// onWorker runs an update of the worker $1 whose guard checks whether anything changes.
func (s *Registry) onWorker(ctx context.Context, a *store.Action, worker, sql string, args ...any) error {
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		var before []byte
		err := tx.QueryRow(ctx, `SELECT `+heldBack+` FROM workers WHERE id = $1 FOR NO KEY UPDATE`, worker).Scan(&before)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, fmt.Errorf("%w: worker %.80q", job.ErrNotFound, worker)
		}
		if err != nil {
			return false, err
		}
		tag, err := tx.Exec(ctx, sql, append([]any{worker}, args...)...)
		if err != nil || tag.RowsAffected() == 0 {
			return false, err
		}
		a.Before = before
		return true, tx.QueryRow(ctx, `SELECT `+heldBack+` FROM workers WHERE id = $1`, worker).Scan((*[]byte)(&a.After))
	})
}

// heldBack is the reasons why a worker takes no jobs, for the record of a change.
const heldBack = `jsonb_strip_nulls(jsonb_build_object('cordoned', cordoned_at IS NOT NULL, 'cordoned_by', nullif(cordoned_by, ''), 'cordon', nullif(cordon, ''),
	'quarantine', nullif(quarantine, ''), 'quarantined_until', quarantined_until))`

// Cordon implements store.Operations.
func (s *Registry) Cordon(ctx context.Context, a *store.Action, worker string) error {
	return s.onWorker(ctx, a, worker, `UPDATE workers SET cordoned_at = now(), cordoned_by = $2, cordon = $3
		WHERE id = $1 AND cordoned_at IS NULL`, pg.CleanText(a.Actor), pg.CleanText(a.Reason))
}

// Uncordon implements store.Operations.
func (s *Registry) Uncordon(ctx context.Context, a *store.Action, worker string) error {
	return s.onWorker(ctx, a, worker, `UPDATE workers SET cordoned_at = NULL, cordoned_by = '', cordon = ''
		WHERE id = $1 AND cordoned_at IS NOT NULL`)
}

// Confine implements store.Operations.
func (s *Registry) Confine(ctx context.Context, a *store.Action, worker string, d time.Duration) error {
	return s.onWorker(ctx, a, worker, `UPDATE workers SET quarantine = $2, quarantined_until = now() + $3 * interval '1 millisecond' WHERE id = $1`,
		pg.CleanText(a.Reason), d.Milliseconds())
}

// Absolve implements store.Operations. The next quarantine is again a first one.
func (s *Registry) Absolve(ctx context.Context, a *store.Action, worker string) error {
	return s.onWorker(ctx, a, worker, `UPDATE workers SET quarantine = '', quarantined_until = NULL, quarantines = 0
		WHERE id = $1 AND quarantined_until > now()`)
}

// load reads the running jobs, of which there are no more than the fleet has slots.
const load = `
SELECT (SELECT count(*) FROM (SELECT worker FROM live_jobs WHERE state = 'running' ORDER BY tenant_id, batch_id) r WHERE worker = $1),
	(SELECT count(*) FROM sessions WHERE state = 'live' AND worker = $1)`

// Jobs and sessions on a worker, the oldest first. A drain waits for them.
var (
	loadJobs = fmt.Sprintf(`
SELECT r.id, t.name, r.started_at FROM (SELECT id, tenant_id, worker, started_at FROM live_jobs WHERE state = 'running' ORDER BY tenant_id, batch_id) r
	JOIN tenants t ON t.id = r.tenant_id
WHERE r.worker = $1 ORDER BY r.started_at LIMIT %d`, store.LoadListed)
	loadSessions = fmt.Sprintf(`
SELECT s.id, t.name, s.created_at FROM sessions s JOIN tenants t ON t.id = s.tenant_id
WHERE s.state = 'live' AND s.worker = $1 ORDER BY s.created_at LIMIT %d`, store.LoadListed)
)

// Load implements store.Operations.
func (s *Registry) Load(ctx context.Context, worker string) (l store.Load, err error) {
	err = s.db.Do(ctx, "load of a worker", func(ctx context.Context) error {
		b := &pgx.Batch{}
		b.Queue(load, worker)
		b.Queue(loadJobs, worker)
		b.Queue(loadSessions, worker)
		res := s.db.Pool.SendBatch(ctx, b)
		defer res.Close()
		if err := res.QueryRow().Scan(&l.Running, &l.Sessions); err != nil {
			return err
		}
		rows, err := res.Query()
		if err != nil {
			return err
		}
		if l.Jobs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[store.WorkerJob]); err != nil {
			return err
		}
		if rows, err = res.Query(); err != nil {
			return err
		}
		if l.LiveSessions, err = pgx.CollectRows(rows, pgx.RowToStructByPos[store.WorkerSession]); err != nil {
			return err
		}
		return res.Close()
	})
	return l, err
}

// Restored implements store.Operations.
func (s *Registry) Restored(ctx context.Context) (history string, err error) {
	err = s.db.Do(ctx, "read the lineage", func(ctx context.Context) error {
		err := s.db.Pool.QueryRow(ctx, `SELECT name FROM lineage WHERE one AND reapplied IS DISTINCT FROM name`).Scan(&history)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return err
	})
	return history, err
}

// Reapplied implements store.Operations.
func (s *Registry) Reapplied(ctx context.Context, history string) error {
	return s.db.Do(ctx, "note the lineage", func(ctx context.Context) error {
		_, err := s.db.Pool.Exec(ctx, `UPDATE lineage SET reapplied = name WHERE one AND name = $1`, history)
		return err
	})
}
