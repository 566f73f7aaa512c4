package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// retrySQL decides the user's retry: the outcome is one of retry_on, and an attempt is left. A job with a requested
// cancel, or with an expired time to start, is not repeated.
const retrySQL = `(j.tries + 1 < j.max_attempts AND i.outcome = ANY (string_to_array(j.retry_on, ','))
	AND NOT j.cancel_requested AND (j.expires_at IS NULL OR j.expires_at > now())) IS TRUE`

// finishOne records the result of one job without a batch, earlier attempts or a retry: the most frequent job that a
// client waits for. It does the work of finish for such a job, in one partition of two tables; it ignores every other
// job.
var finishOne = `
WITH moved AS (
	UPDATE live_jobs j SET state = CASE WHEN i.outcome = 'canceled' THEN 'canceled' ELSE 'finished' END,
		outcome = i.outcome, ended_at = now(), tries = j.tries + 1, lease_until = NULL
	FROM (SELECT $3::text AS outcome) i
	WHERE j.id = $1 AND j.lease = $2::bigint AND j.worker = $5::text AND j.state || '' = 'running' AND j.batch_id = '` + string(pg.NilID) + `' AND j.earlier = 0
		AND NOT ` + retrySQL + `
	RETURNING j.id, j.tenant_id, j.lease, j.outcome, j.worker, j.identity)
INSERT INTO results AS r (id, batch_id, seq, lease, tenant_id, outcome, worker, identity, body)
SELECT id, '` + string(pg.NilID) + `', 0, lease, tenant_id, outcome, worker, identity, $4 FROM moved
RETURNING ` + format.ResultColumns

// finish records results under their leases: the fence is lease, worker and state. Leases are numbers that can be
// guessed, so the worker must match, too.
var finish = `
WITH moved AS (
	UPDATE live_jobs j SET
		state = CASE WHEN ` + retrySQL + ` THEN 'queued' WHEN i.outcome = 'canceled' THEN 'canceled' ELSE 'finished' END,
		outcome = CASE WHEN ` + retrySQL + ` THEN NULL ELSE i.outcome END,
		ended_at = CASE WHEN ` + retrySQL + ` THEN NULL ELSE now() END,
		earlier = j.earlier + (` + retrySQL + `)::integer,
		tries = j.tries + 1, lease_until = NULL
	FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[]) AS i (id, lease, outcome, body, worker)
	WHERE j.id = i.id AND j.id >= $1 AND j.lease = i.lease AND j.worker = i.worker AND j.state || '' = 'running'
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, j.lease, '' AS reason, j.worker, j.identity, j.earlier,
		i.body, i.outcome AS attempt_outcome, '' AS message, j.started_at)` + recordTail

// finished reads the effect of an earlier call on these leases of one day, whose commit its caller did not see. The day
// may not be live any more.
func finished(day pg.Days) string {
	return `
SELECT i.id, i.lease, i.worker, r.id IS NOT NULL OR s.id IS NOT NULL
FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS i (id, lease, worker)
LEFT JOIN LATERAL (SELECT r.id FROM results r WHERE r.id = i.id AND r.lease = i.lease AND r.worker = i.worker AND r.reason = '' AND ` + day.In("r.id") + ` OFFSET 0) r ON true
LEFT JOIN set_aside s ON s.job_id = i.id AND s.lease = i.lease AND s.worker = i.worker
WHERE r.id IS NOT NULL OR s.id IS NOT NULL
	OR EXISTS (SELECT FROM attempts a WHERE a.job_id = i.id AND a.lease = i.lease AND a.worker = i.worker AND a.outcome IS NOT NULL AND ` + day.In("a.job_id") + ` OFFSET 0)`
}

// Finish implements store.Recorder. A result that PostgreSQL refuses is set aside and counts as recorded: its lease is
// over, and its objects are kept.
func (s *Transitions) Finish(ctx context.Context, fs []store.Finish) ([]store.FinishStatus, error) {
	if len(fs) == 0 {
		return nil, nil
	}
	status := make(map[store.Held]store.FinishStatus, len(fs))
	err := pg.Apart(fs, func(part []store.Finish) error { return s.finishAll(ctx, part, status) },
		func(f store.Finish, cause error) error { return s.finishAside(ctx, f, cause, status) })
	if err != nil {
		return nil, err
	}
	out := make([]store.FinishStatus, len(fs))
	for i, f := range fs {
		if out[i] = status[heldBy(f)]; out[i] == "" {
			out[i] = store.Fenced
		}
	}
	return out, nil
}

func heldBy(f store.Finish) store.Held { return store.Held{LeaseRef: f.LeaseRef, Worker: f.Worker} }

// finishAll records results, all or none, and notes their statuses.
func (s *Transitions) finishAll(ctx context.Context, fs []store.Finish, status map[store.Held]store.FinishStatus) error {
	in, err := finishArrays(fs)
	if err != nil {
		return pg.Translate("finish", err)
	}
	return s.db.Urgent(ctx, "finish", func(ctx context.Context) error {
		moved, err := s.recordFor(ctx, fs, in)
		if err != nil {
			return err
		}
		for _, e := range moved {
			status[store.Held{LeaseRef: store.LeaseRef{Job: e.id, Lease: e.lease}, Worker: e.worker}] = statusOf(e.state != job.Queued)
		}
		if len(moved) == len(fs) {
			return nil
		}
		return s.readBack(ctx, fs, status)
	})
}

// finishAside sets aside a result that PostgreSQL refuses. If its lease is not current, it reads the effect of an
// earlier call.
func (s *Transitions) finishAside(ctx context.Context, f store.Finish, cause error, status map[store.Held]store.FinishStatus) error {
	in, err := finishArrays([]store.Finish{f})
	if err != nil {
		return pg.Translate("finish", err)
	}
	found, err := s.setAside(ctx, refusal{step: "finish", job: f.Job, lease: f.Lease, worker: f.Worker, outcome: f.Outcome, body: &in.bodies[0], cause: cause})
	if err != nil {
		return err
	}
	if found {
		status[heldBy(f)] = store.Recorded
		return nil
	}
	return s.db.Urgent(ctx, "finish", func(ctx context.Context) error { return s.readBack(ctx, []store.Finish{f}, status) })
}

// recordOne records by finishOne. If no job moved, finish must handle it.
func (s *Transitions) recordOne(ctx context.Context, f store.Finish, in *finishColumns) (moved []recordedRow, err error) {
	rows, err := s.db.Pool.Query(ctx, finishOne, in.first, in.leases[0], in.outcomes[0], in.bodies[0], in.workers[0])
	if err != nil {
		return nil, err
	}
	var r format.Result
	_, err = pgx.ForEachRow(rows, r.Targets(), func() error {
		moved = []recordedRow{{f.Job, f.Lease, r.Outcome.State(), r.Worker}}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if moved != nil && f.Record != nil {
		f.Record(r.JSON())
	}
	return moved, nil
}

// recordFor records, and reads back in the same transaction the records for waiting clients.
func (s *Transitions) recordFor(ctx context.Context, fs []store.Finish, in *finishColumns) (moved []recordedRow, err error) {
	if len(fs) == 1 && fs[0].BatchID == "" {
		if moved, err := s.recordOne(ctx, fs[0], in); err != nil || moved != nil {
			return moved, err
		}
	}
	waiting := map[job.ID]func(json.RawMessage){}
	var ids []pgtype.UUID
	for _, f := range fs {
		if f.Record != nil {
			waiting[f.Job], ids = f.Record, append(ids, pg.UUID(f.Job))
		}
	}
	args := []any{in.first, in.ids, in.leases, in.outcomes, in.bodies, in.workers}
	if len(ids) == 0 {
		return s.record(ctx, finish, args...)
	}
	records := map[job.ID]json.RawMessage{}
	b := &pgx.Batch{}
	b.Queue(finish, args...).Query(func(rows pgx.Rows) error {
		moved, err = scanEnded(rows)
		return err
	})
	b.Queue(`SELECT `+format.ResultColumns+` FROM live_results r WHERE r.id = ANY ($1) AND r.id >= $2`, ids, in.first).Query(func(rows pgx.Rows) error {
		var r format.Result
		_, err := pgx.ForEachRow(rows, r.Targets(), func() error {
			records[pg.JobID(r.ID)] = r.JSON()
			return nil
		})
		return err
	})
	if err := s.db.Pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	for id, raw := range records {
		waiting[id](raw)
	}
	return moved, nil
}

func (s *Transitions) readBack(ctx context.Context, fs []store.Finish, status map[store.Held]store.FinishStatus) error {
	open := slices.DeleteFunc(slices.Clone(fs), func(f store.Finish) bool { return status[store.Held{LeaseRef: f.LeaseRef, Worker: f.Worker}] != "" })
	days, of := pg.ByDay(open, func(f store.Finish) job.ID { return f.Job })
	for _, day := range days {
		var leases []store.Held
		for _, f := range of[day] {
			leases = append(leases, store.Held{LeaseRef: f.LeaseRef, Worker: f.Worker})
		}
		ids, numbers, workers, _ := heldArrays(leases)
		rows, err := s.db.Pool.Query(ctx, finished(day), ids, numbers, workers)
		if err != nil {
			return err
		}
		var id pgtype.UUID
		var lease job.Lease
		var worker string
		var isRecord bool
		if _, err := pgx.ForEachRow(rows, []any{&id, &lease, &worker, &isRecord}, func() error {
			status[store.Held{LeaseRef: store.LeaseRef{Job: pg.JobID(id), Lease: lease}, Worker: worker}] = statusOf(isRecord)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func statusOf(isRecord bool) store.FinishStatus {
	if isRecord {
		return store.Recorded
	}
	return store.Retried
}

type finishColumns struct {
	first            pgtype.UUID
	ids              []pgtype.UUID
	leases           []int64
	outcomes, bodies []string
	workers          []string
}

func finishArrays(fs []store.Finish) (*finishColumns, error) {
	order, first := byID(len(fs), func(i int) job.ID { return fs[i].Job })
	in := &finishColumns{first: first}
	for _, i := range order {
		f := fs[i]
		if !f.Outcome.Valid() {
			return nil, fmt.Errorf("%w: job %s: outcome %q", job.ErrInvalid, f.Job, f.Outcome)
		}
		body, err := format.Body(f.Result)
		if err != nil {
			return nil, fmt.Errorf("result of job %s: %w", f.Job, err)
		}
		in.ids = append(in.ids, pg.UUID(f.Job))
		in.leases = append(in.leases, int64(f.Lease))
		in.outcomes = append(in.outcomes, string(f.Outcome))
		in.bodies = append(in.bodies, body)
		in.workers = append(in.workers, f.Worker)
	}
	return in, nil
}
