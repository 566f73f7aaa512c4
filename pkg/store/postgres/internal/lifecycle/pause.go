package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// noLook waits for the current look of a scheduler, which may not see a pause yet. Later looks wait until the pause is
// committed.
const noLook = `SELECT pg_advisory_xact_lock(hashtextextended('assay schedule', 0))`

// pausing is SQL that pauses or resumes one kind of object, and checks that the object exists.
type pausing struct{ exists, pause, resume, undo string }

var pausings = map[string]pausing{
	store.PauseBatch: {
		exists: `SELECT count(*) FROM batches WHERE id = $1::uuid AND sealed_at IS NOT NULL`,
		pause:  `UPDATE batches SET paused_at = now(), paused_by = $2, pause = $3 WHERE id = $1::uuid AND paused_at IS NULL`,
		resume: `UPDATE batches SET paused_at = NULL, paused_by = '', pause = '' WHERE id = $1::uuid AND paused_at IS NOT NULL`,
		undo: `UPDATE live_jobs j SET state = 'queued' FROM (
			SELECT j.id FROM batches b, LATERAL (SELECT id FROM live_jobs WHERE state = 'dispatched' AND tenant_id = b.tenant_id AND batch_id = b.id
				ORDER BY tenant_id, batch_id) j WHERE b.id = $1::uuid ORDER BY j.id) i
			WHERE j.id = i.id AND j.state || '' = 'dispatched'`,
	},
	store.PauseTenant: {
		exists: `SELECT count(*) FROM tenants WHERE name = $1`,
		pause:  `UPDATE tenants SET paused_at = now(), paused_by = $2, pause = $3 WHERE name = $1 AND paused_at IS NULL`,
		resume: `UPDATE tenants SET paused_at = NULL, paused_by = '', pause = '' WHERE name = $1 AND paused_at IS NOT NULL`,
		undo: `UPDATE live_jobs j SET state = 'queued' FROM (
			SELECT j.id FROM tenants t, LATERAL (SELECT id FROM live_jobs WHERE state = 'dispatched' AND tenant_id = t.id
				ORDER BY tenant_id, batch_id) j WHERE t.name = $1 ORDER BY j.id) i
			WHERE j.id = i.id AND j.state || '' = 'dispatched'`,
	},
	store.PausePool: { // dispatched jobs may suit other pools, too: only this pool's workers stop claiming
		exists: `SELECT 1 WHERE $1 <> ''`,
		pause:  `INSERT INTO paused_pools (pool, paused_by, pause) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		resume: `DELETE FROM paused_pools WHERE pool = $1`,
	},
}

// Pause implements store.Steering.
func (s *Transitions) Pause(ctx context.Context, a *store.Action, what store.Pausable) error {
	return s.pausing(ctx, a, what, true, func(ctx context.Context, tx pgx.Tx, p pausing) (bool, error) {
		if _, err := tx.Exec(ctx, noLook); err != nil {
			return false, err
		}
		tag, err := tx.Exec(ctx, p.pause, what.Name, pg.CleanText(a.Actor), pg.CleanText(a.Reason))
		if err != nil || tag.RowsAffected() == 0 {
			return false, err
		}
		if what.Kind == store.PauseBatch {
			if err := fewPaused(ctx, tx); err != nil {
				return false, err
			}
		}
		if p.undo != "" {
			_, err = tx.Exec(ctx, p.undo, what.Name)
		}
		return true, err
	})
}

// Resume implements store.Steering.
func (s *Transitions) Resume(ctx context.Context, a *store.Action, what store.Pausable) error {
	return s.pausing(ctx, a, what, false, func(ctx context.Context, tx pgx.Tx, p pausing) (bool, error) {
		tag, err := tx.Exec(ctx, p.resume, what.Name)
		return tag.RowsAffected() > 0, err
	})
}

func (s *Transitions) pausing(ctx context.Context, a *store.Action, what store.Pausable, paused bool, do func(context.Context, pgx.Tx, pausing) (bool, error)) error {
	p, known := pausings[what.Kind]
	if !known {
		return fmt.Errorf("%w: a %.20q cannot be paused", job.ErrInvalid, what.Kind)
	}
	defer s.db.News.Settings()
	return s.db.Act(ctx, a, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		var n int64
		err := tx.QueryRow(ctx, p.exists, what.Name).Scan(&n)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && n == 0 {
			return false, fmt.Errorf("%w: %s %.80q", job.ErrNotFound, what.Kind, what.Name)
		}
		if err != nil {
			return false, err
		}
		changed, err := do(ctx, tx, p)
		if changed {
			a.Before, a.After = shownPause(!paused), shownPause(paused)
		}
		return changed, err
	})
}

// shownPause is a pause as the record of a change has it.
func shownPause(paused bool) json.RawMessage {
	return json.RawMessage(`{"paused":` + strconv.FormatBool(paused) + `}`)
}

const pausedBatches = ` FROM batches b JOIN batch_counts c ON c.batch_id = b.id WHERE b.paused_at IS NOT NULL AND c.ended_at IS NULL`

func fewPaused(ctx context.Context, tx pgx.Tx) error {
	var n int64
	err := tx.QueryRow(ctx, `SELECT count(*)`+pausedBatches).Scan(&n)
	if err == nil && n > store.MaxPaused {
		err = fmt.Errorf("%w: %w", job.ErrTooMany, job.Invalid("batch", "%d batches are paused, the maximum; pause their tenants instead", store.MaxPaused))
	}
	return err
}

const pauses = `
SELECT 'batch', b.id::text, b.paused_at, b.paused_by, b.pause` + pausedBatches + `
UNION ALL SELECT 'pool', pool, paused_at, paused_by, pause FROM paused_pools
UNION ALL SELECT 'tenant', name, paused_at, paused_by, pause FROM tenants WHERE paused_at IS NOT NULL
ORDER BY 1, 2`

// Pauses implements store.Steering.
func (s *Transitions) Pauses(ctx context.Context) (ps []store.Pause, err error) {
	err = s.db.Do(ctx, "pauses", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, pauses)
		if err != nil {
			return err
		}
		ps, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p store.Pause, err error) {
			return p, row.Scan(&p.Kind, &p.Name, &p.At, &p.By, &p.Reason)
		})
		return err
	})
	return ps, err
}
