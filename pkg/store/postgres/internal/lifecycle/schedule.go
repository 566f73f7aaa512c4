package lifecycle

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// schedule releases up to what is left of the window $2 of the classes $1 (column
// pool), fairly:
//
//   - A scan that stands in the statement costs even where it finds nothing: every partition
//     is opened for it. So each stands there once: recursions begin before the first row.
//   - tiers steps through the index jobs_by_priority, from one (tenant, priority) of each
//     class to the next, and groups from one batch of a tier to the next, the oldest first,
//     until they have jobs for the whole window, or it has stepped over mostSkipped that have
//     none: then the next look goes on from there ($4, see rounds). The cost is that of the
//     window, not of the queue or its batches. Of these, the ones whose first job is among the
//     first of its tenant have candidates.
//   - A turn of a batch is one place, or, where the window has room for more than
//     batchesAbreast, as many as make that number of batches fill it (quantum).
//   - Of each group no more are candidates than what is left of its turn, or four times its
//     even share among those that have a whole turn, which a point of priority doubles. Up to
//     exactWindow places all of them may be one group's, which holds less than the others.
//   - held counts what every tenant and batch already occupies, from rows: there
//     is no counter that a crash could leave wrong.
//   - Each candidate's virtual time is its turn in its batch, counted from what
//     the batch already holds, divided by 2^priority: batches of a tenant take
//     turns, a point of priority is worth a double share.
//   - Waiting for $3 milliseconds is worth a point of priority, up to the highest
//     that the tenant has queued, so that no stream of urgent jobs starves the
//     others. Beyond it age would let an old flood starve what came later.
//   - What waits after a failure of ours is stepped over until its time has come, what is
//     paused until it is resumed.
//   - Tenants take turns in the same way, by their weight, within max_running.
//   - Jobs with capped labels are queued in lanes, one for each combination of
//     values. Full lanes are stepped over, and of the candidates that share a value
//     the first fit.
//
// The guard on state makes it safe beside any other statement; the advisory lock
// taken before (in the same round trip) makes several schedulers share one window,
// and the schedules of several sets of classes the limits of a tenant.
var schedule = `
WITH RECURSIVE dispatched AS MATERIALIZED (SELECT tenant_id, batch_id, pool, caps FROM live_jobs WHERE state = 'dispatched'),
budget AS MATERIALIZED (
	SELECT greatest($2::bigint - count(*) FILTER (WHERE pool = ANY ($1::text[])), 0) AS n,
		greatest(ceil($2::bigint / ` + batchesAbreast + `), 1)::bigint AS quantum FROM dispatched),
tiers AS (
	SELECT pool, 0 AS tenant_id, 0 AS priority FROM unnest($1::text[]) AS c (pool), budget WHERE n > 0 -- before the first
	UNION ALL
	SELECT t.pool, next.* FROM tiers t, LATERAL (
		SELECT j.tenant_id, j.priority FROM live_jobs j
		WHERE j.state = 'queued' AND j.pool = t.pool AND (j.tenant_id, -j.priority) > (t.tenant_id, -t.priority)
		ORDER BY j.tenant_id, -j.priority LIMIT 1) next),
live AS MATERIALIZED (
	SELECT tenant_id, batch_id, caps FROM dispatched
	UNION ALL SELECT tenant_id, batch_id, caps FROM live_jobs WHERE state = 'running' AND (SELECT n FROM budget) > 0),
held AS MATERIALIZED (SELECT tenant_id, batch_id, count(*) AS n FROM live GROUP BY tenant_id, batch_id),
tenant_held AS MATERIALIZED (SELECT tenant_id, sum(n) AS n FROM held GROUP BY tenant_id),
batch_held AS MATERIALIZED (SELECT coalesce(jsonb_object_agg(tenant_id || ' ' || batch_id, n), '{}') AS n FROM held),
groups AS MATERIALIZED (
	SELECT t.pool, g.*, t.held, t.round FROM (
		SELECT t.*, coalesce(h.n, 0) AS held, $4::jsonb -> ` + roundKey("t") + ` AS round,
			greatest(` + mostSkipped + ` / count(*) OVER (PARTITION BY t.tenant_id), 10) AS most_skipped
		FROM tiers t LEFT JOIN tenant_held h ON h.tenant_id = t.tenant_id
		WHERE t.tenant_id > 0 AND NOT EXISTS (SELECT FROM tenants p WHERE p.id = t.tenant_id AND p.paused_at IS NOT NULL) OFFSET 0) t, LATERAL (` + oldestGroups + `) g),
` + cappedHeld + `ready AS MATERIALIZED (
	SELECT g.*, t.weight, t.max_running, max(g.priority) OVER (PARTITION BY g.tenant_id) AS top,
		greatest(4 * (SELECT n FROM budget) / greatest(count(*) FILTER (WHERE g.counts AND g.batch_held + g.added >= (SELECT quantum FROM budget))
			OVER (PARTITION BY g.tenant_id), 1), g.added,
			CASE WHEN (SELECT n FROM budget) <= ` + exactWindow + ` THEN (SELECT n FROM budget) ELSE 1 END)
			* 2 ^ least(g.priority - min(g.priority) OVER (PARTITION BY g.tenant_id), 20) AS most,
		t.label_caps AS tenant_caps, b.label_caps AS batch_caps,
		count(*) FILTER (WHERE g.capped) OVER (PARTITION BY g.tenant_id) AS capped_groups,
		g.held AS tenant_held, row_number() OVER (PARTITION BY g.tenant_id, g.batch_id, g.priority ORDER BY g.head) AS among -- classes
	FROM groups g JOIN tenants t ON t.id = g.tenant_id LEFT JOIN batches b ON b.id = g.batch_id
	WHERE (g.batch_id = '00000000-0000-0000-0000-000000000000'
		OR b.tenant_id = g.tenant_id AND b.sealed_at IS NOT NULL AND NOT b.cancel_requested AND b.paused_at IS NULL)),
hopeful AS MATERIALIZED (
	SELECT * FROM (SELECT r.*, row_number() OVER (PARTITION BY r.tenant_id, r.counts
		ORDER BY ` + turnOf("r.batch_held + r.among") + ` / ` + virtually("r", "r.head_at") + `, r.head) AS nth FROM ready r) r
	WHERE NOT counts OR nth <= (SELECT n FROM budget)),
waiting AS MATERIALIZED (
	SELECT r.*, c.* FROM hopeful r, LATERAL (
		SELECT 0 AS lane, r.most AS room WHERE NOT r.capped UNION ALL (` + openLanes + `)) o, LATERAL (
		SELECT j.id, j.created_at, j.caps FROM live_jobs j
		WHERE ` + waitsIn("r", "r") + ` AND j.lane = o.lane
		ORDER BY j.tenant_id, j.batch_id, j.priority, j.lane, j.id LIMIT least(o.room, (SELECT n FROM budget))::bigint) c),
candidates AS MATERIALIZED (
	SELECT w.*, ` + turnOf("(w.batch_held + row_number() OVER (PARTITION BY w.tenant_id, w.batch_id, w.priority ORDER BY w.id))") + `
		/ ` + virtually("w", "w.created_at") + ` AS turn
	FROM waiting w),
` + cappedFitting + `ranked AS (
	SELECT id, weight, max_running, tenant_held + row_number() OVER (PARTITION BY tenant_id ORDER BY turn, id) AS place
	FROM candidates WHERE caps IS NULL OR id IN (SELECT id FROM fitting)),
picked AS MATERIALIZED (
	SELECT id, row_number() OVER (ORDER BY place / weight, id) AS ord FROM ranked
	WHERE max_running IS NULL OR place <= max_running
	ORDER BY place / weight, id LIMIT (SELECT n FROM budget)),
moved AS (
	UPDATE live_jobs j SET state = 'dispatched', dispatch_gen = j.dispatch_gen + 1, dispatched_at = now(), published_at = now()
	FROM picked p WHERE j.id = p.id AND j.state || '' = 'queued' AND NOT j.cancel_requested
	RETURNING j.id, j.dispatch_gen, j.traceparent, j.cache_key IS NOT NULL AS cacheable, p.ord, j.pool, j.batch_id, j.tenant_id)
SELECT id, dispatch_gen, coalesce(traceparent, ''), cacheable, coalesce(pool, ''), batch_id,
	CASE WHEN traceparent IS NULL THEN '' ELSE (SELECT t.name FROM tenants t WHERE t.id = moved.tenant_id) END, ord
FROM moved
UNION ALL SELECT NULL, lane, CASE WHEN skips THEN '` + roundGoesOn + `' ELSE '` + roundEnds + `' END, finds, '', batch_id, ` + roundKey("groups") + `, 0
FROM groups WHERE skips OR round IS NOT NULL AND finds
UNION ALL SELECT NULL, 0, '` + roundWaits + `', false, '', NULL, '', 0 FROM budget WHERE n = 0
ORDER BY ord`

// virtually is SQL for what a job's place is divided by: two to the power of its priority,
// counted from the highest of its tenant and raised by its age.
func virtually(row, created string) string {
	return `2::float8 ^ greatest(least(` + row + `.priority
			+ floor(greatest(date_part('epoch', now() - ` + created + `), 0) * 1000 / $3::bigint), ` + row + `.top) - ` + row + `.top, -50)`
}

// batchesAbreast is how many batches of a tenant's priority share a window that has room
// for more: each then takes several places in a turn, its quantum. With many live batches
// that is what keeps a look, and the counters that a bulk of results adds to, few.
const batchesAbreast = `64.0`

// exactWindow is for how many places at most the order of the candidates alone decides who
// gets them. For more a group that has fallen behind catches up over several looks.
const exactWindow = `16`

// turnOf is SQL for the turn, from one on, in which a batch takes a place of its own.
func turnOf(place string) string {
	return `ceil((` + place + `)::float8 / (SELECT quantum FROM budget))`
}

// oldestGroups are the (batch, priority) of a tier t that may be picked from: the oldest, until
// those that have not held their quantum yet fill the window. Those of which the first job
// may not run now are stepped over, and so are those with capped labels: openLanes knows how much of them
// may run.
//
// In a round, jobs without a batch are stepped through beside the batches, which begin where it is.
// They are not what a round finds.
var oldestGroups = `
		WITH RECURSIVE steps AS (
			SELECT t.tenant_id, b.batch_id, b.lane, t.priority, false AS capped, false AS counts, NULL::uuid AS head, NULL::timestamptz AS head_at,
				0::bigint AS batch_held, 0::bigint AS added, 0::bigint AS filled, 0::bigint AS skipped, false AS finds, b.upto -- before the first
			FROM (SELECT '00000000-0000-0000-0000-000000000000'::uuid, -1,
					CASE WHEN t.round IS NULL THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff' ELSE '00000000-0000-0000-0000-000000000000' END::uuid
				UNION ALL
				SELECT (t.round ->> 'batch')::uuid, (t.round ->> 'lane')::integer, 'ffffffff-ffff-ffff-ffff-ffffffffffff' WHERE t.round IS NOT NULL) b (batch_id, lane, upto)
			UNION ALL
			SELECT next.*, adds.added, s.filled + adds.added, s.skipped + CASE WHEN adds.added = 0 THEN 1 ELSE 0 END,
				s.finds OR adds.added > 0 AND next.batch_id <> '00000000-0000-0000-0000-000000000000', s.upto FROM steps s, LATERAL (
				SELECT j.tenant_id, j.batch_id, CASE WHEN j.lane > 0 THEN 2147483647 ELSE 0 END, j.priority, j.lane > 0 AS capped, ` + groupCounts + ` AS counts,
					j.id AS head, j.created_at AS head_at,
					coalesce(((SELECT n FROM batch_held) -> (j.tenant_id || ' ' || j.batch_id))::bigint, 0) AS batch_held
				FROM live_jobs j WHERE j.state = 'queued' AND j.pool = t.pool AND j.tenant_id = t.tenant_id AND -j.priority = -t.priority
					AND (j.batch_id, j.lane) > (s.batch_id, s.lane) AND j.batch_id <= s.upto
				ORDER BY j.tenant_id, -j.priority, j.batch_id, j.lane LIMIT 1) next, LATERAL (` + addsNext + `) adds
			WHERE s.filled < (SELECT n FROM budget) AND s.skipped < t.most_skipped)
		SELECT tenant_id, batch_id, priority, capped, counts, head, head_at, batch_held, added, lane,
			finds, filled < (SELECT n FROM budget) AND skipped >= t.most_skipped AS skips
		FROM steps WHERE head IS NOT NULL`

// addsNext is SQL for how many jobs of the group "next" may run in its batch's present turn.
var addsNext = `
				SELECT CASE WHEN NOT next.counts OR room.n <= 0 THEN 0 WHEN room.n = 1 THEN 1 ELSE (
					SELECT count(*) FROM (SELECT FROM live_jobs j WHERE ` + waitsIn("next", "t") + ` AND j.lane = 0
						ORDER BY j.tenant_id, j.batch_id, j.priority, j.lane, j.id LIMIT room.n) few) END AS added
				FROM (SELECT quantum - next.batch_held AS n FROM budget) room OFFSET 0`

const groupCounts = `(j.lane = 0 AND (j.not_before IS NULL OR j.not_before <= now()) AND (j.expires_at IS NULL OR j.expires_at > now())
				AND (j.batch_id = '00000000-0000-0000-0000-000000000000'
					OR EXISTS (SELECT FROM batches b WHERE b.id = j.batch_id AND b.sealed_at IS NOT NULL AND NOT b.cancel_requested AND b.paused_at IS NULL)))`

// waitsIn is SQL for the jobs of a group, in the pool of a tier, that may run now. Those that are overdue
// may not: nobody could claim them, and they would hold places of the window.
func waitsIn(row, tier string) string {
	return `j.state = 'queued' AND j.pool = ` + tier + `.pool AND j.tenant_id = ` + row + `.tenant_id AND j.batch_id = ` + row + `.batch_id
			AND j.priority = ` + row + `.priority AND (j.not_before IS NULL OR j.not_before <= now()) AND (j.expires_at IS NULL OR j.expires_at > now())`
}

// What is there for capped jobs: how much of each cap is held, the candidates
// of each lane with room, and those of them that fit together.
var (
	cappedHeld = `capped AS MATERIALIZED (
	SELECT coalesce(jsonb_object_agg(k, n), '{}') AS held FROM (
		SELECT ` + format.CapKey("j", "cap") + ` AS k, count(*) AS n
		FROM live j, string_to_table(j.caps, E'\n') cap WHERE j.caps IS NOT NULL
		GROUP BY k) counted),
`
	cappedFitting = `fitting AS (
	SELECT id FROM (
		SELECT c.id, ` + format.CapRoom("c", "cap", "(SELECT held FROM capped)") + ` AS room,
			row_number() OVER (PARTITION BY ` + format.CapKey("c", "cap") + ` ORDER BY c.turn, c.id) AS nth
		FROM candidates c, string_to_table(c.caps, E'\n') cap) counted
	GROUP BY id HAVING coalesce(bool_and(nth <= room), true)),
`
)

// openLanes steps from one lane of a group to the next and keeps those with room, as
// many as the window has. It begins anywhere, goes around once, and ends after as many lanes as the tenant
// holds jobs and a thousand more, shared by its capped groups. With one capped label that is past all that
// are full; with several, of which one value can fill any number of lanes, a lane
// with room is met within as many looks as it takes to go past those.
var openLanes = `
		WITH RECURSIVE start AS MATERIALIZED (SELECT (random() * 2147483646)::integer AS lane WHERE r.capped),
		lanes AS (
			SELECT lane, 2147483647 AS upto, NULL AS caps FROM start
			UNION ALL
			SELECT coalesce(next.lane, 0), CASE WHEN next.lane IS NULL THEN (SELECT lane FROM start) ELSE l.upto END, next.caps
			FROM lanes l LEFT JOIN LATERAL (
				SELECT j.lane, j.caps FROM live_jobs j WHERE ` + waitsIn("r", "r") + ` AND j.lane > l.lane AND j.lane <= l.upto
				ORDER BY j.tenant_id, j.batch_id, j.priority, j.lane LIMIT 1) next ON true
			WHERE next.lane IS NOT NULL OR l.upto = 2147483647)
		SELECT l.lane, free.room FROM (SELECT lane, caps FROM lanes WHERE caps IS NOT NULL
			LIMIT 10 + (1000 + r.tenant_held) / greatest(r.capped_groups, 1)) l, LATERAL (
			SELECT coalesce(min(` + format.CapRoom("r", "cap", "(SELECT held FROM capped)") + `), 1000000) AS room
			FROM string_to_table(l.caps, E'\n') cap) free
		WHERE free.room > 0 LIMIT (SELECT n FROM budget)`

// Schedule implements store.Scheduler. While batches that have nothing to run are all that it
// meets, it goes on past them, for roundTime.
func (s *Transitions) Schedule(ctx context.Context, classes []string, window int) (ds []store.Dispatch, err error) {
	for began := time.Now(); ; {
		var more bool
		err := s.db.Urgent(ctx, "schedule", func(ctx context.Context) (err error) {
			ds, more, err = s.scheduleOnce(ctx, classes, window)
			return err
		})
		if err != nil || len(ds) > 0 || !more || time.Since(began) > roundTime {
			return ds, err
		}
	}
}

// scheduleOnce is one look. More says that it left batches out.
func (s *Transitions) scheduleOnce(ctx context.Context, classes []string, window int) (ds []store.Dispatch, more bool, err error) {
	// One round trip and one transaction, but two snapshots: the second
	// statement sees what the holder of the lock before us has committed.
	b := &pgx.Batch{}
	b.Queue(`SELECT pg_advisory_xact_lock(hashtextextended('assay schedule', 0))`)
	b.Queue(schedule, classes, window, s.cfg.AgeEvery.Milliseconds(), s.rounds.places(time.Now()))
	res := s.db.Pool.SendBatch(ctx, b)
	defer res.Close()
	if _, err := res.Exec(); err != nil {
		return nil, false, err
	}
	rows, err := res.Query()
	if err != nil {
		return nil, false, err
	}
	var ends []roundEnd
	if ds, err = collectDispatches(rows, &ends); err != nil {
		return nil, false, err
	}
	if err := res.Close(); err != nil { // the commit
		return nil, false, err
	}
	return ds, s.rounds.note(classes, ends, time.Now()), nil
}

// collectDispatches reads what schedule and unclaimed return. Of schedule a row without a job
// is what became of a round.
func collectDispatches(rows pgx.Rows, ends *[]roundEnd) (ds []store.Dispatch, err error) {
	var id, batch pgtype.UUID
	var d store.Dispatch
	var ord int64
	_, err = pgx.ForEachRow(rows, []any{&id, &d.Generation, &d.TraceParent, &d.Cacheable, &d.Pool, &batch, &d.Tenant, &ord}, func() error {
		if !id.Valid {
			*ends = append(*ends, roundEnd{tier: d.Tenant, what: d.TraceParent, found: d.Cacheable, place: place{Batch: pg.JobID(batch), Lane: int64(d.Generation)}})
			return nil
		}
		d.Job, d.BatchID = pg.JobID(id), ""
		if d.TraceParent != "" {
			d.BatchID = pg.BatchID(batch)
		}
		ds = append(ds, d)
		return nil
	})
	return ds, err
}

// unclaimed finds its rows through the index on dispatched ones, of which there
// are never more than the windows.
const unclaimed = `
UPDATE live_jobs j SET published_at = now()
FROM (SELECT id FROM live_jobs WHERE state = 'dispatched' AND published_at < now() - $1 * interval '1 millisecond'
	ORDER BY published_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) p
WHERE j.id = p.id AND j.state || '' = 'dispatched'
RETURNING j.id, j.dispatch_gen, coalesce(j.traceparent, ''), j.cache_key IS NOT NULL, j.pool, j.batch_id,
	CASE WHEN j.traceparent IS NULL THEN '' ELSE (SELECT t.name FROM tenants t WHERE t.id = j.tenant_id) END, 0::bigint`

// Unclaimed implements store.Scheduler.
func (s *Transitions) Unclaimed(ctx context.Context, olderThan time.Duration, n int) (ds []store.Dispatch, err error) {
	err = s.db.Urgent(ctx, "unclaimed", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, unclaimed, olderThan.Milliseconds(), n)
		if err != nil {
			return err
		}
		ds, err = collectDispatches(rows, nil)
		return err
	})
	return ds, err
}
