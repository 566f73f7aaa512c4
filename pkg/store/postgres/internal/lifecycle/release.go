package lifecycle

import (
	"context"
	"fmt"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// longestWait is the most, in milliseconds, that a job waits after a failure of
// ours. A job's own share of it is between a half and the whole.
const longestWait = `10000`

// releaseFrom ends attempts for infrastructure reasons. Its first part, from, selects the rows ("i": id, lease, worker,
// reason, message, blamed); $1 is the infrastructure budget, $2 the first delay of a retry in milliseconds, $3 how many
// workers a job may take down, $4 the milliseconds until the last of these counts.
//
// The job goes back to the queue, unless its cancel was requested or this was the last loss that the budget covers.
// Drain and preemption are not charged. A possible poison job waits in the queue until that is decided: see condemn. A
// charged job waits, longer each time, so that lasting trouble does not use up the budget and jobs that were lost
// together do not return together. The first loss of all, if it is a lost lease, is the exception: another worker very
// likely has no trouble.
func releaseFrom(from string) string {
	const charged = `(i.reason IN ('lost', 'infra'))::integer`
	const over = `j.losses + ` + charged + ` >= $1 AND ` + charged + ` = 1`
	const poison = `i.blamed AND j.kills + 1 >= $3`
	const verdict = `now() + interval '10 seconds' + $4::bigint * interval '2 milliseconds'`
	const nth = `(j.losses + (i.reason = 'infra')::integer)` // delay; none before the first
	const wait = `CASE WHEN ` + poison + ` THEN ` + verdict + ` WHEN ` + charged + ` = 1 AND ` + nth + ` > 0 THEN now() + interval '1 millisecond'
		* least($2::bigint * 2.0 ^ least(` + nth + ` - 1, 20), ` + longestWait + `)
		* (0.5 + abs(hashtext(j.id::text || j.losses) % 1000) / 2000.0) END`
	end := func(canceled, lost, queued string) string {
		return `CASE WHEN j.cancel_requested THEN ` + canceled + ` WHEN (` + over + `) THEN ` + lost + ` ELSE ` + queued + ` END`
	}
	return `
WITH i AS MATERIALIZED (` + from + `),
moved AS (
	UPDATE live_jobs j SET
		state = ` + end(`'canceled'`, `'finished'`, `'queued'`) + `,
		outcome = ` + end(`'canceled'`, `'lost'`, `NULL`) + `,
		ended_at = ` + end(`now()`, `now()`, `NULL`) + `,
		earlier = j.earlier + ` + end(`0`, `0`, `1`) + `,
		losses = j.losses + ` + charged + `, kills = j.kills + i.blamed::integer, lease_until = NULL, not_before = ` + wait + `
	FROM i
	WHERE j.id = i.id AND j.lease = i.lease AND j.worker = i.worker AND j.state || '' = 'running'
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, j.lease, i.reason, j.worker, j.identity, j.earlier,
		CASE j.outcome WHEN 'canceled' THEN ` + bodyWith(`'canceled'::text`) + `
			WHEN 'lost' THEN ` + bodyWith(`'given up after ' || j.losses || ' attempts lost to infrastructure'
				|| CASE WHEN i.message = '' THEN '' ELSE ': ' || i.message END`) + ` END AS body,
		NULL::text AS attempt_outcome, i.message, j.started_at, j.worker_since, i.blamed),
suspected AS (
	INSERT INTO blames (job_id, lease, worker, worker_since)
	SELECT id, lease, worker, worker_since FROM moved WHERE blamed AND state = 'queued')` + recordTail
}

var release = releaseFrom(`SELECT u.*, false AS blamed FROM unnest($5::uuid[], $6::bigint[], $7::text[], $8::text[], $9::text[]) AS u (id, lease, worker, reason, message)`)

// RevokeAssignment implements store.Recorder.
func (s *Transitions) RevokeAssignment(ctx context.Context, l store.LeaseRef) (done bool, err error) {
	err = s.db.Urgent(ctx, "revoke assignment", func(ctx context.Context) error {
		tag, err := s.db.Pool.Exec(ctx, `
			UPDATE live_jobs SET state = 'queued', lease = 0, worker = NULL, worker_since = NULL, started_at = NULL, dispatched_at = NULL, published_at = NULL, lease_until = NULL
			WHERE id = $1 AND (lease = $2 OR $2 = 0 AND started_at = created_at) AND state || '' = 'running' AND NOT cancel_requested`, pg.UUID(l.Job), int64(l.Lease))
		if done = tag.RowsAffected() > 0; done {
			s.db.News.Requeued()
		}
		return err
	})
	return done, err
}

// Release implements store.Recorder. An attempt that PostgreSQL refuses to take back ends its job.
func (s *Transitions) Release(ctx context.Context, rs []store.Release) error {
	if len(rs) == 0 {
		return nil
	}
	return pg.Apart(rs, func(part []store.Release) error { return s.releaseAll(ctx, part) }, func(r store.Release, cause error) error {
		_, err := s.setAside(ctx, refusal{step: "release", job: r.Job, lease: r.Lease, worker: r.Worker, outcome: job.Lost,
			message: refusedEnd + ": " + r.Message, cause: cause})
		return err
	})
}

func (s *Transitions) releaseAll(ctx context.Context, rs []store.Release) error {
	var reasons, messages []string
	var leases []store.Held
	order, _ := byID(len(rs), func(i int) job.ID { return rs[i].Job })
	for _, i := range order {
		switch rs[i].Reason {
		case job.ReasonLost, job.ReasonDrained, job.ReasonPreempted, job.ReasonInfra:
		default:
			return fmt.Errorf("%w: job %s: release reason %q", job.ErrInvalid, rs[i].Job, rs[i].Reason)
		}
		leases = append(leases, store.Held{LeaseRef: rs[i].LeaseRef, Worker: rs[i].Worker})
		reasons = append(reasons, string(rs[i].Reason))
		messages = append(messages, pg.CleanText(rs[i].Message))
	}
	ids, numbers, workers, _ := heldArrays(leases)
	return s.db.Urgent(ctx, "release", func(ctx context.Context) error {
		_, err := s.record(ctx, release, s.cfg.InfraBudget, s.cfg.RetryDelay.Milliseconds(), s.cfg.PoisonAfter, s.cfg.PoisonWait.Milliseconds(), ids, numbers, workers, reasons, messages)
		return err
	})
}
