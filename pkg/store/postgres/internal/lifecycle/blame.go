package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Blame for a lost lease. A job is suspected of the end of its worker only if the worker probably ended: jobs.kills
// counts the suspicions, blames holds them one by one. A suspicion is dropped when the worker reports again, since it
// was then cut off and did not end, and after blameFor. A job is given up for good (condemn) when enough suspicions
// have lasted.
const (
	// poisonWithin is how soon after a job's start its lease must have ended for the job to be suspected of its
	// worker's end. A later end has many possible causes.
	poisonWithin = 2 * time.Minute
	// blameFor is how long a suspicion counts.
	blameFor = time.Hour
)

// poolsHeard counts the workers of each pool that take jobs, and those that reported lately: less than a lease ago,
// which is more than a few heartbeats.
const poolsHeard = `
	pools AS MATERIALIZED (
		SELECT pool, count(*) AS n, count(*) FILTER (WHERE seen_at > now() - interval '20 seconds') AS heard
		FROM (SELECT pool, seen_at FROM workers WHERE NOT draining AND seen_at > now() - interval '10 minutes' ORDER BY id) w GROUP BY pool)`

// wentAlone is SQL for whether the process that worker w was at a time (since) has probably ended: another process has
// its name, or it is silent and most of its pool is not. If most are silent, the fleet is cut off. In a pool of one
// worker the cause cannot be known.
func wentAlone(since string) string {
	const own = `(NOT w.draining AND w.seen_at > now() - interval '10 minutes')::integer`
	const heard = `(NOT w.draining AND w.seen_at > now() - interval '20 seconds')::integer`
	return `(coalesce(w.started_at <> ` + since + `, false) OR EXISTS (SELECT FROM pools p WHERE p.pool = w.pool
			AND p.n > ` + own + ` AND 2 * (p.heard - ` + heard + `) >= p.n - ` + own + `))`
}

// acquit drops suspicions against jobs whose workers live, and old ones. A worker that is refused because of its name
// lives, too.
var acquit = fmt.Sprintf(`
WITH cleared AS MATERIALIZED (
	SELECT b.job_id, b.lease FROM blames b LEFT JOIN workers w ON w.id = b.worker
	WHERE b.job_id >= '`+string(pg.NilID)+`' AND (b.blamed_at < now() - interval '%d seconds'
		OR w.seen_at > b.blamed_at AND coalesce(w.started_at = b.worker_since, true)
		OR w.rival_at > b.blamed_at AND w.rival_since = b.worker_since)
	ORDER BY b.job_id, b.lease`+limited(2)+` FOR UPDATE OF b SKIP LOCKED),
gone AS (DELETE FROM blames b USING cleared c WHERE b.job_id = c.job_id AND b.lease = c.lease RETURNING b.job_id),
eased AS (
	UPDATE live_jobs j SET kills = greatest(j.kills - g.n, 0), not_before = CASE WHEN j.kills < $1 THEN j.not_before END
	FROM (SELECT job_id, count(*)::integer AS n FROM gone GROUP BY job_id ORDER BY job_id) g
	WHERE j.id = g.job_id AND j.state || '' IN ('queued', 'dispatched', 'running'))
SELECT count(*) FROM gone`, int(blameFor.Seconds()))

func (s *Transitions) acquit(ctx context.Context, _ *store.ReapStats, until time.Time) error {
	const op = "take back blames"
	return pg.Chunks(reapChunk, until, func(c pg.Chunk) (n int, err error) {
		err = s.db.Urgent(ctx, op, func(ctx context.Context) error {
			return s.db.Pool.QueryRow(ctx, acquit, s.cfg.PoisonAfter, c.Limit, c.Offset).Scan(&n)
		})
		return n, err
	}, func(_ pg.Chunk, cause error) (bool, error) { return s.db.Refused(ctx, op, cause) })
}

// guilty finds the jobs that enough workers ended under ($1), each of them for sure or
// silent for so long ($2, ms) while its pool is not.
var guilty = fmt.Sprintf(`
WITH`+poolsHeard+`,
guilty AS MATERIALIZED (
	SELECT b.job_id, count(*) AS n FROM (SELECT * FROM blames ORDER BY job_id, lease) b LEFT JOIN workers w ON w.id = b.worker
	WHERE EXISTS (SELECT FROM live_jobs j WHERE j.id = b.job_id AND j.state || '' IN ('queued', 'dispatched'))`+
	strings.Replace(notHeld, "id", "b.job_id", 1)+`
	GROUP BY b.job_id
	HAVING count(*) >= $1 AND bool_and(coalesce(w.started_at <> b.worker_since, w.id IS NULL)
		OR b.blamed_at < now() - $2 * interval '1 millisecond' AND %s)
	ORDER BY b.job_id`+limited(3)+`),
i AS MATERIALIZED (
	SELECT j.id, g.n FROM guilty g JOIN live_jobs j ON j.id = g.job_id ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED)`, wentAlone(`b.worker_since`))

const whyPoison = `given up: poison, its start was the end of `

// condemn ends the guilty.
var condemn = guilty + `,
moved AS (
	UPDATE live_jobs j SET state = 'finished', outcome = 'lost', ended_at = now() FROM i
	WHERE j.id = i.id AND j.state || '' IN ('queued', 'dispatched')
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, 0::bigint AS lease, '' AS reason, j.worker, j.identity, j.earlier,
		` + bodyWith(`'`+whyPoison+`' || i.n || ' workers, the last of them ' || coalesce(j.worker, 'unknown')`) + ` AS body,
		NULL::text AS attempt_outcome, '' AS message, j.started_at)` + recordTail

func (s *Transitions) condemn(ctx context.Context, st *store.ReapStats, until time.Time) error {
	args := []any{s.cfg.PoisonAfter, s.cfg.PoisonWait.Milliseconds()}
	d := dueEnd{op: "give up poison", sql: condemn, args: args, due: guilty + ` SELECT id FROM i`, dueArgs: args, outcome: job.Lost, message: whyPoison + "its workers"}
	return s.endDue(ctx, d, reapChunk, until, func(e recordedRow) {
		if e.state == job.Finished {
			st.JobsLost++
		}
	})
}
