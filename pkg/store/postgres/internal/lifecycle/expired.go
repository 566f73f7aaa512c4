package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// releaseExpired ends expired leases, by the server's clock alone. There is no index on lease ends; the one on running
// rows is small.
var releaseExpired = releaseEnded(expiredLeases, `'the lease of worker ' || worker || ' ended'`)

const expiredLeases = `SELECT j.id, j.lease, j.worker, j.worker_since, j.kills, j.lease_until - j.started_at AS took FROM live_jobs j
		WHERE j.state = 'running' AND j.lease_until < now()`

// releaseReplaced ends the leases of processes whose names other processes have taken: these run nothing any more. It
// checks the worker of each running job, so it runs only after such a takeover (tookOver).
var releaseReplaced = releaseEnded(replacedLeases, `'worker ' || worker || ' was started anew'`)

const replacedLeases = `SELECT j.id, j.lease, j.worker, j.worker_since, j.kills, now() - j.started_at AS took
		FROM live_jobs j JOIN workers w ON w.id = j.worker
		WHERE j.state = 'running' AND w.started_at <> j.worker_since`

// endedLeases completes one of the queries above, with LIMIT and OFFSET as its arguments from n on.
func endedLeases(query string, n int) string {
	return query + strings.Replace(notHeld, "id", "j.id", 1) + ` ORDER BY j.tenant_id, j.batch_id` + limited(n) + ` FOR NO KEY UPDATE OF j SKIP LOCKED`
}

// tookOver reports whether a name was taken over so lately that its last owner's leases
// may not have ended by themselves.
const tookOver = `SELECT EXISTS (SELECT FROM workers WHERE id > '' AND took_over_at > now() - interval '2 minutes')`

// releaseEnded releases the jobs that a query finds (id, lease, worker, worker_since, kills, and the duration).
//
// A worker's end is blamed on the jobs that it ran, if they had begun not long before and have the most suspicions so
// far: at first on all of them. Claim ensures that a worker runs one job at a time that is one suspicion short of
// poison. Such a job is only blamed alone, so no job is given up because of its neighbours. No job is blamed unless the
// worker has probably ended: see wentAlone.
func releaseEnded(query, message string) string {
	return releaseFrom(fmt.Sprintf(`
	WITH beside AS MATERIALIZED (
		SELECT worker, max(kills) AS most FROM (SELECT worker, kills FROM live_jobs WHERE state = 'running' ORDER BY tenant_id, batch_id) r
		WHERE kills > 0 GROUP BY worker),
	ended AS MATERIALIZED (%s), `+poolsHeard+`,
	judged AS (
		SELECT e.*, took < interval '%d seconds' AND %s AS soon FROM ended e LEFT JOIN workers w ON w.id = e.worker)
	SELECT id, lease, worker, 'lost' AS reason, %s AS message,
		soon AND kills >= coalesce((SELECT most FROM beside b WHERE b.worker = e.worker), 0)
			AND (kills + 1 < $3 OR count(*) OVER (PARTITION BY worker, kills) = 1) AS blamed
	FROM judged e`,
		endedLeases(query, 5), int(poisonWithin.Seconds()), wentAlone(`e.worker_since`), message))
}

func (s *Transitions) reapLeases(ctx context.Context, st *store.ReapStats, until time.Time) error {
	var some bool
	if err := s.db.Urgent(ctx, "look for new owners of names", func(ctx context.Context) error {
		return s.db.Pool.QueryRow(ctx, tookOver).Scan(&some)
	}); err != nil {
		return err
	}
	err := s.reapEnded(ctx, releaseExpired, expiredLeases, st, until)
	if some {
		err = errors.Join(err, s.reapEnded(ctx, releaseReplaced, replacedLeases, st, until))
	}
	return err
}

func (s *Transitions) reapEnded(ctx context.Context, sql, query string, st *store.ReapStats, until time.Time) error {
	d := dueEnd{op: "reap leases", sql: sql, due: endedLeases(query, 1), outcome: job.Lost, message: refusedEnd, running: true,
		args: []any{s.cfg.InfraBudget, s.cfg.RetryDelay.Milliseconds(), s.cfg.PoisonAfter, s.cfg.PoisonWait.Milliseconds()}}
	return s.endDue(ctx, d, reapChunk, until, func(e recordedRow) {
		st.LeasesExpired++
		if e.state == job.Finished {
			st.JobsLost++
		}
	})
}
