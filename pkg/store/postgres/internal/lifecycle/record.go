package lifecycle

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// recordTail is the second half of every statement that ends a job or an attempt. The first half moves rows of jobs and
// names, in a CTE "moved": id, batch_id, tenant_id, state, outcome (NULL unless terminal), lease (of the attempt that
// ended, 0 if none ran), reason, worker, identity, earlier, body, and for those back in the queue attempt_outcome,
// message and started_at.
//
// The tail writes, all or nothing: the counters of the batches, a result for each terminal job, and a row in attempts
// for each attempt that will be repeated.
//
// The results of a batch are numbered by its counter row. The row stays locked from the update that draws the numbers
// to the end of the transaction. The next numbers are therefore drawn only after these are visible (or were rolled
// back, and the counter with them). A reader that has seen number n has seen all below it, and a cursor skips nothing.
// A sequence would not do: its numbers become visible in another order than they are drawn. Rows are locked in the
// order of ids ("held"), so two statements over the same batches cannot deadlock.
var recordTail = tailOf(true, true) + `,
kept AS (
	INSERT INTO attempts (job_id, lease, worker, outcome, reason, message, started_at, body)
	SELECT m.id, m.lease, m.worker, m.attempt_outcome, m.reason, m.message, m.started_at, m.body
	FROM moved m WHERE m.state = 'queued' AND m.lease > 0)
SELECT m.id, m.lease, m.state, coalesce(m.worker, '') FROM moved m`

// tailOf is the parts of recordTail that count in batches and that write results. A result
// that is not counted has the number 0.
func tailOf(counted, recorded bool) (sql string) {
	if counted {
		sql += tallied
	}
	if recorded {
		sql += resultsOf(counted)
	}
	return sql
}

// tallied counts the jobs that are moved in their batches.
var tallied = `,
tally AS (
	SELECT batch_id, count(*) AS n, ` + format.PerOutcome(`count(*) FILTER (WHERE outcome = '%[1]s') AS %[1]s`) + `
	FROM moved WHERE outcome IS NOT NULL AND batch_id <> '` + string(pg.NilID) + `' GROUP BY batch_id),
held AS MATERIALIZED (
	SELECT c.batch_id FROM tally t JOIN batch_counts c ON c.batch_id = t.batch_id ORDER BY c.batch_id FOR NO KEY UPDATE OF c),
counted AS (
	UPDATE batch_counts c SET recorded = c.recorded + t.n, ` + format.PerOutcome(`%[1]s = c.%[1]s + t.%[1]s`) + `,
		ended_at = CASE WHEN c.recorded + t.n = c.total THEN now() END
	FROM held h JOIN tally t ON t.batch_id = h.batch_id WHERE c.batch_id = h.batch_id
	RETURNING c.batch_id, c.recorded - t.n AS base)`

// resultsOf writes a result for each job that is moved and over.
func resultsOf(counted bool) string {
	seq, from := `0`, ``
	if counted {
		seq = `coalesce(c.base + row_number() OVER (PARTITION BY m.batch_id ORDER BY m.id), 0)`
		from = ` LEFT JOIN counted c ON c.batch_id = m.batch_id`
	}
	return `,
recorded AS (
	INSERT INTO results (id, batch_id, seq, lease, tenant_id, outcome, reason, worker, identity, attempts, body)
	SELECT m.id, m.batch_id, ` + seq + `,
		m.lease, m.tenant_id, m.outcome, m.reason, CASE WHEN m.lease > 0 THEN m.worker END, m.identity,
		CASE WHEN m.earlier > 0 THEN ` + attemptsOf("m.id") + ` END,
		m.body
	FROM moved m` + from + ` WHERE m.outcome IS NOT NULL)`
}

// attemptsOf is SQL for the earlier attempts of a job, as its result shows them.
func attemptsOf(id string) string {
	return `(
			SELECT string_agg('{"lease":' || a.lease || ',"worker":' || to_json(a.worker) || ',"outcome":"'
				|| coalesce(a.outcome, 'lost') || '","reason":"' || a.reason || '"}', ',' ORDER BY a.lease)
			FROM live_attempts a WHERE a.job_id = ` + id + `)`
}

// recordedRow is a row that recordTail answers with.
type recordedRow struct {
	id     job.ID
	lease  job.Lease
	state  job.State
	worker string
}

func (s *Transitions) record(ctx context.Context, sql string, args ...any) ([]recordedRow, error) {
	rows, err := s.db.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	es, err := scanEnded(rows)
	if slices.ContainsFunc(es, func(e recordedRow) bool { return e.state == job.Queued }) {
		s.db.News.Requeued()
	}
	return es, err
}

func scanEnded(rows pgx.Rows) ([]recordedRow, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (recordedRow, error) {
		var id pgtype.UUID
		var e recordedRow
		err := row.Scan(&id, &e.lease, &e.state, &e.worker)
		e.id = pg.JobID(id)
		return e, err
	})
}

// bodyWith is SQL for the body of a result that no worker made, with a message.
func bodyWith(message string) string {
	return `'"message":' || to_json(` + message + `) || ',` + format.EmptyBody + `'`
}
