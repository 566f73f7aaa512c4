package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// claim is the way to running, for all but suspects: jobs that $7 workers have ended
// under.
var claim = `
WITH moved AS (
	UPDATE live_jobs j SET state = 'running', lease = nextval('leases'), worker = i.worker, worker_since = i.since,
		started_at = now(), lease_until = now() + $1 * interval '1 millisecond'
	FROM unnest($3::uuid[], $4::integer[], $5::text[], $6::timestamptz[]) AS i (id, gen, worker, since)
	WHERE j.id = i.id AND j.id >= $2 AND j.state || '' = 'dispatched' AND j.dispatch_gen = i.gen
		AND NOT j.cancel_requested AND (j.expires_at IS NULL OR j.expires_at > now())
		AND j.kills < $7::integer
	RETURNING j.*)
SELECT ` + claimedColumns + specInRoom + claimedRest + ` FROM moved j JOIN live_specs s ON s.id = j.id AND s.id >= $2 JOIN tenants t ON t.id = j.tenant_id`

// claimOne is claim for one job, as claims come while clients wait: the server
// then looks into one partition, and prepares for none of the others.
var claimOne = claimWhen(`j.kills < $6::integer`)

// claimSuspect moves a suspect to running. It does not run beside another suspect on a worker: see releaseExpired.
// Suspects are claimed one after the other, since the claims of one statement do not see each other.
var claimSuspect = claimWhen(`NOT EXISTS (SELECT FROM live_jobs r WHERE r.state = 'running' AND r.worker = $4 AND r.kills >= $6::integer)`)

func claimWhen(allowed string) string {
	return `
WITH moved AS (
	UPDATE live_jobs j SET state = 'running', lease = nextval('leases'), worker = $4::text, worker_since = $5::timestamptz,
		started_at = now(), lease_until = now() + $1 * interval '1 millisecond'
	WHERE j.id = $2 AND j.state || '' = 'dispatched' AND j.dispatch_gen = $3::integer
		AND NOT j.cancel_requested AND (j.expires_at IS NULL OR j.expires_at > now()) AND ` + allowed + `
	RETURNING j.*)
SELECT ` + claimedColumns + `s.spec` + claimedRest + ` FROM moved j JOIN live_specs s ON s.id = $2 JOIN tenants t ON t.id = j.tenant_id`
}

// suspects finds the claims that were refused because their jobs are suspects.
const suspects = `
SELECT j.id, j.dispatch_gen FROM live_jobs j, unnest($2::uuid[], $3::integer[]) AS i (id, gen)
WHERE j.id = i.id AND j.id >= $1 AND j.state || '' = 'dispatched' AND j.dispatch_gen = i.gen AND j.kills >= $4`

// reclaim answers a claim that was committed before, to the process that made it:
// the same lease, from now on. Another process of the worker's name has not run the job
// so far, and shall not do so under a lease that is not its own.
var reclaim = `
WITH moved AS (
	UPDATE live_jobs j SET lease_until = now() + $1 * interval '1 millisecond'
	FROM unnest($3::uuid[], $4::integer[], $5::text[], $6::timestamptz[]) AS i (id, gen, worker, since)
	WHERE j.id = i.id AND j.id >= $2 AND j.state || '' = 'running' AND j.dispatch_gen = i.gen AND j.worker = i.worker
		AND coalesce(j.worker_since = i.since, true)
	RETURNING j.*, i.since AS asked)
SELECT ` + reclaimedColumns + specInRoom + claimedRest + ` FROM moved j JOIN live_specs s ON s.id = j.id AND s.id >= $2 JOIN tenants t ON t.id = j.tenant_id`

const (
	claimedColumns   = `j.id, j.dispatch_gen, j.worker, j.worker_since, ` + claimedFirst
	reclaimedColumns = `j.id, j.dispatch_gen, j.worker, j.asked, ` + claimedFirst // as it was asked for
	claimedFirst     = `j.lease, t.name, j.batch_id, `
	claimedRest      = `, coalesce(j.traceparent, ''),
	1000 * extract(epoch FROM j.started_at - j.created_at)::float8`
)

// specInRoom is the spec while the specs before it are below store.ClaimBytes. The server knows the length of a spec
// that is stored out of line without reading it.
var specInRoom = fmt.Sprintf(`CASE WHEN sum(octet_length(s.spec)) OVER (ORDER BY j.id ROWS UNBOUNDED PRECEDING) - octet_length(s.spec) < %d THEN s.spec END`,
	store.ClaimBytes)

// Claim implements store.Recorder. A job that PostgreSQL refuses to let run is ended.
func (s *Transitions) Claim(ctx context.Context, ttl time.Duration, claims []store.Claim) ([]store.Claimed, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	won, later := make(map[store.Claim]store.Claimed, len(claims)), map[store.Ref]bool{}
	err := pg.Apart(claims, func(part []store.Claim) error { return s.claimAll(ctx, ttl, part, won, later) }, func(c store.Claim, cause error) error {
		_, err := s.setAside(ctx, refusal{step: "claim", job: c.Job, outcome: job.Lost, message: "given up: the database refuses to give it to a worker", cause: cause})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]store.Claimed, len(claims))
	for i, c := range claims {
		out[i] = won[c]
		out[i].Ref = c.Ref
		out[i].Later = out[i].Lease == 0 && later[c.Ref]
	}
	return out, nil
}

// claimAll claims all permitted jobs, or none.
func (s *Transitions) claimAll(ctx context.Context, ttl time.Duration, claims []store.Claim, won map[store.Claim]store.Claimed, later map[store.Ref]bool) error {
	return s.db.Urgent(ctx, "claim", func(ctx context.Context) error {
		if len(claims) == 1 {
			if err := s.claimRow(ctx, won, claimOne, ttl, claims[0]); err != nil || len(won) == 1 {
				return err
			}
		} else {
			ids, gens, workers, since, first := claimArrays(claims)
			if err := s.claimRows(ctx, won, claim, ttl.Milliseconds(), first, ids, gens, workers, since, s.cfg.PoisonAfter-1); err != nil {
				return err
			}
		}
		refused := slices.DeleteFunc(slices.Clone(claims), func(c store.Claim) bool { return won[c].Lease != 0 })
		if len(refused) == 0 {
			return nil
		}
		ids, gens, workers, since, first := claimArrays(refused)
		if err := s.claimRows(ctx, won, reclaim, ttl.Milliseconds(), first, ids, gens, workers, since); err != nil {
			return err
		}
		return s.claimSuspects(ctx, won, later, ttl, refused)
	})
}

// claimSuspects claims permitted suspects among the refused claims, and marks in later the suspects that must wait.
func (s *Transitions) claimSuspects(ctx context.Context, won map[store.Claim]store.Claimed, later map[store.Ref]bool, ttl time.Duration, refused []store.Claim) error {
	ids, gens, _, _, first := claimArrays(refused)
	rows, err := s.db.Pool.Query(ctx, suspects, first, ids, gens, s.cfg.PoisonAfter-1)
	if err != nil {
		return err
	}
	var id pgtype.UUID
	var gen job.Generation
	if _, err := pgx.ForEachRow(rows, []any{&id, &gen}, func() error {
		later[store.Ref{Job: pg.JobID(id), Generation: gen}] = true
		return nil
	}); err != nil {
		return err
	}
	for _, c := range refused {
		if later[c.Ref] {
			if err := s.claimRow(ctx, won, claimSuspect, ttl, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func claimArrays(claims []store.Claim) (ids []pgtype.UUID, gens []int32, workers []string, since []pgtype.Timestamptz, first pgtype.UUID) {
	order, first := byID(len(claims), func(i int) job.ID { return claims[i].Job })
	for _, i := range order {
		ids = append(ids, pg.UUID(claims[i].Job))
		gens = append(gens, int32(claims[i].Generation))
		workers = append(workers, claims[i].Worker)
		since = append(since, pg.SinceOf(claims[i].Since))
	}
	return ids, gens, workers, since, first
}

// claimRow asks for one claim, by claimOne or claimSuspect.
func (s *Transitions) claimRow(ctx context.Context, won map[store.Claim]store.Claimed, sql string, ttl time.Duration, c store.Claim) error {
	return s.claimRows(ctx, won, sql, ttl.Milliseconds(), pg.UUID(c.Job), int32(c.Generation), c.Worker, pg.SinceOf(c.Since), s.cfg.PoisonAfter-1)
}

func (s *Transitions) claimRows(ctx context.Context, won map[store.Claim]store.Claimed, sql string, args ...any) error {
	rows, err := s.db.Pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	var id, batch pgtype.UUID
	var worker string
	var since pgtype.Timestamptz
	var c store.Claimed
	_, err = pgx.ForEachRow(rows, []any{&id, &c.Generation, &worker, &since, &c.Lease, &c.Tenant, &batch, &c.Spec, &c.TraceParent, &c.QueuedMS},
		func() error {
			c.Job, c.BatchID = pg.JobID(id), pg.BatchID(batch)
			won[store.Claim{Ref: c.Ref, Worker: worker, Since: incarnationOf(since)}] = c
			c.Spec = nil // the next row gets its own memory
			return nil
		})
	return err
}

// heartbeat changes no indexed column: a HOT update.
const heartbeat = `
UPDATE live_jobs j SET lease_until = now() + $1 * interval '1 millisecond'
FROM unnest($3::uuid[], $4::bigint[], $5::text[]) AS i (id, lease, worker)
WHERE j.id = i.id AND j.id >= $2 AND j.lease = i.lease AND j.worker = i.worker AND j.state || '' = 'running'
RETURNING j.id, j.lease, j.worker, j.cancel_requested`

// Heartbeat implements store.Recorder.
func (s *Transitions) Heartbeat(ctx context.Context, ttl time.Duration, leases []store.Held) (lost, canceled []store.Held, err error) {
	if len(leases) == 0 {
		return nil, nil, nil
	}
	current := make(map[store.Held]bool, len(leases)) // → cancel requested
	err = pg.Apart(leases, func(part []store.Held) error { return s.prolong(ctx, ttl, part, current) },
		func(_ store.Held, cause error) error { // it counts as lost
			_, err := s.db.Refused(ctx, "heartbeat", cause)
			return err
		})
	if err != nil {
		return nil, nil, err
	}
	for _, l := range leases {
		switch cancel, ok := current[l]; {
		case !ok:
			lost = append(lost, l)
		case cancel:
			canceled = append(canceled, l)
		}
	}
	return lost, canceled, nil
}

// prolong prolongs leases, all that are current or none, and notes them.
func (s *Transitions) prolong(ctx context.Context, ttl time.Duration, leases []store.Held, current map[store.Held]bool) error {
	ids, numbers, workers, first := heldArrays(leases)
	return s.db.Urgent(ctx, "heartbeat", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, heartbeat, ttl.Milliseconds(), first, ids, numbers, workers)
		if err != nil {
			return err
		}
		var id pgtype.UUID
		var lease job.Lease
		var worker string
		var cancel bool
		_, err = pgx.ForEachRow(rows, []any{&id, &lease, &worker, &cancel}, func() error {
			current[store.Held{LeaseRef: store.LeaseRef{Job: pg.JobID(id), Lease: lease}, Worker: worker}] = cancel
			return nil
		})
		return err
	})
}

func heldArrays(leases []store.Held) (ids []pgtype.UUID, numbers []int64, workers []string, first pgtype.UUID) {
	order, first := byID(len(leases), func(i int) job.ID { return leases[i].Job })
	for _, i := range order {
		ids = append(ids, pg.UUID(leases[i].Job))
		numbers = append(numbers, int64(leases[i].Lease))
		workers = append(workers, leases[i].Worker)
	}
	return ids, numbers, workers, first
}

func incarnationOf(since pgtype.Timestamptz) store.Incarnation {
	if !since.Valid {
		return 0
	}
	return store.IncarnationOf(since.Time)
}
