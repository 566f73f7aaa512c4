package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// A refusal is a job whose end PostgreSQL refuses: a counter, a result, an attempt or the job itself violates a
// constraint, makes a trigger fail, or cannot be read. The job is ended nevertheless, with as much of its record as
// PostgreSQL takes (endings). The rest is kept in set_aside until an operator records or drops it. So it costs other
// jobs nothing.
type refusal struct {
	step    string // the statement
	job     job.ID
	lease   job.Lease // of the attempt that ended; 0: none did, and the job may be in any state
	worker  string    // that held the lease
	outcome job.Outcome
	body    *string // of the result, as format.Body has it; nil: only the message
	message string  // of a result that no worker made
	cause   error
}

// ending is one way to end a job.
type ending struct {
	counted, recorded bool
	name              store.AsideEnd
	sql               string
}

// endings are the ways in which a job is ended that is refused: with less and less of its record.
var endings = []ending{
	newEnding(true, true, store.AsideRecorded),
	newEnding(false, true, store.AsideUncounted),
	newEnding(true, false, store.AsideCounted),
	newEnding(false, false, store.AsideUnrecorded),
}

// newEnding returns the statement that ends the job $1, if it runs under the lease $2 of the
// worker $3, or, with lease 0, if it has not ended. $4 is its outcome, $5 the body of its result
// or NULL for the message $6, $7 the reason.
func newEnding(counted, recorded bool, name store.AsideEnd) ending {
	seq := `0::bigint`
	if counted {
		seq = `coalesce((SELECT base + 1 FROM counted), 0)`
	}
	return ending{counted, recorded, name, `
WITH moved AS (
	UPDATE live_jobs j SET state = CASE WHEN $4 = 'canceled' THEN 'canceled' ELSE 'finished' END, outcome = $4, ended_at = now(), lease_until = NULL
	WHERE j.id = $1 AND j.state || '' IN ('queued', 'dispatched', 'running')
		AND ($2::bigint = 0 OR j.lease = $2 AND j.worker = $3::text AND j.state || '' = 'running')
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, $2 AS lease, $7::text AS reason, j.worker, j.identity, j.earlier,
		coalesce($5::text, ` + bodyWith(`$6::text`) + `) AS body, NULL::text AS attempt_outcome, '' AS message, j.started_at)` +
		tailOf(counted, recorded) + `
SELECT ` + seq + ` FROM moved`}
}

// whyAside is the message of a job whose own result is set aside.
const whyAside = `its result could not be recorded (SQLSTATE %s); it is kept, and an operator can record it`

// insertAside stores the parts of a refusal that are not in the record. An attempt is set aside once.
const insertAside = `
INSERT INTO set_aside (id, step, job_id, batch_id, tenant_id, lease, worker, outcome, body, message, sqlstate, error, ended, seq)
SELECT $1, $2, $3, j.batch_id, j.tenant_id, $4, $5, $6, $7, $8, $9, $10, $11, $12 FROM jobs j WHERE j.id = $3 AND %s
ON CONFLICT (job_id, lease) DO UPDATE SET step = EXCLUDED.step, outcome = EXCLUDED.outcome, body = coalesce(EXCLUDED.body, set_aside.body),
	message = EXCLUDED.message, sqlstate = EXCLUDED.sqlstate, error = EXCLUDED.error, ended = EXCLUDED.ended, seq = EXCLUDED.seq`

// setAside ends the job of a refusal in a transaction of its own. found: the job was there to be
// ended, and is over or set aside now.
func (s *Transitions) setAside(ctx context.Context, r refusal) (found bool, err error) {
	err = s.db.Urgent(ctx, "set aside", func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
			found, err = s.setAsideIn(ctx, tx, r)
			return err
		})
	})
	return found, err
}

func (s *Transitions) setAsideIn(ctx context.Context, tx pgx.Tx, r refusal) (found bool, err error) {
	kept, ended, seq := r.body, store.AsideHeld, int64(0)
	for _, way := range waysOf(r) {
		n, err := endBy(ctx, tx, r, way)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if pg.IsRowError(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		ended, seq = way.name, n
		if way.own && way.recorded {
			kept = nil // the record has it
		}
		break
	}
	return true, s.keepAside(ctx, tx, r, kept, ended, seq)
}

// A way is an ending with the result's own outcome, or as lost in place of it.
type way struct {
	ending
	own bool
}

func waysOf(r refusal) (ways []way) {
	for _, e := range endings {
		if r.body == nil || e.recorded { // a success without a result would be none
			ways = append(ways, way{e, true})
		}
	}
	if r.body != nil {
		for _, e := range endings {
			ways = append(ways, way{e, false})
		}
	}
	return ways
}

// endBy ends a job in one way, or changes nothing. It returns the number of the job in its batch, and pgx.ErrNoRows if
// there is nothing to end.
func endBy(ctx context.Context, tx pgx.Tx, r refusal, w way) (seq int64, err error) {
	outcome, body, message, reason := r.outcome, r.body, r.message, ""
	if !w.own {
		outcome, body, message = job.Lost, nil, fmt.Sprintf(whyAside, pg.Code(r.cause))
	}
	if r.lease > 0 && outcome == job.Lost {
		reason = string(job.ReasonInfra)
	}
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, w.sql, pg.UUID(r.job), int64(r.lease), r.worker, string(outcome), body, message, reason).Scan(&seq)
	})
	return seq, err
}

func (s *Transitions) keepAside(ctx context.Context, tx pgx.Tx, r refusal, body *string, ended store.AsideEnd, seq int64) error {
	var raw []byte // PostgreSQL may refuse the text itself
	if body != nil {
		raw = []byte(*body)
	}
	id := job.NewID()
	_, err := tx.Exec(ctx, fmt.Sprintf(insertAside, pg.OnDay("j.id", r.job)), pg.UUID(id), r.step, pg.UUID(r.job), int64(r.lease), r.worker,
		string(r.outcome), raw, pg.CleanText(r.message), pg.Code(r.cause), pg.CleanText(r.cause.Error()), string(ended), seq)
	if err != nil {
		return fmt.Errorf("set a refused row aside: %w", err)
	}
	s.db.CountSetAside(ctx, r.step)
	slog.ErrorContext(ctx, "row rejected by PostgreSQL; set aside for an operator", "id", id, "call", r.step, "job", r.job, "lease", r.lease,
		"outcome", r.outcome, "ended", ended, "sqlstate", pg.Code(r.cause), "error", r.cause)
	return nil
}

// notHeld keeps a statement of the reaper from rows that could not be ended at all.
const notHeld = ` AND id <> ALL (ARRAY(SELECT a.job_id FROM set_aside a WHERE a.ended = 'held'))`

// asideAt sets the row aside that a statement of the reaper finds at a place, and which is refused.
// due finds the row and locks it; end ends it as the statement would. gone: it is not found again.
func (s *Transitions) asideAt(ctx context.Context, d dueEnd, c pg.Chunk, cause error) (rows []recordedRow, err error) {
	err = s.db.Urgent(ctx, "set aside", func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.db.Pool, func(tx pgx.Tx) error {
			rows = nil
			var id pgtype.UUID
			err := tx.QueryRow(ctx, `SELECT d.id FROM (`+d.due+`) d`, append(d.dueArgs[:len(d.dueArgs):len(d.dueArgs)], 1, c.Offset)...).Scan(&id)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			r := refusal{step: d.op, job: pg.JobID(id), outcome: d.outcome, message: d.message, cause: cause}
			if d.running {
				if err := tx.QueryRow(ctx, `SELECT lease, coalesce(worker, '') FROM live_jobs WHERE id = $1`, id).Scan(&r.lease, &r.worker); err != nil {
					return err
				}
			}
			// It may be another row than before, which is not refused.
			err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				found, err := tx.Query(ctx, d.sql, append(d.args[:len(d.args):len(d.args)], 1, c.Offset)...)
				if err == nil {
					rows, err = scanEnded(found)
				}
				return err
			})
			if !pg.IsRowError(err) {
				return err
			}
			r.cause = err
			_, err = s.setAsideIn(ctx, tx, r)
			return err
		})
	})
	return rows, err
}
