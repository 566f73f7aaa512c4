-- heads: for each visit of a tenant's queue in a class, the batches that the scheduler may pick
-- from, the highest priority first and in it the oldest batch first, each with the jobs of its
-- present turn.
--
-- A visit steps through the index jobs_by_priority from one (priority, batch) to the next. It goes on to
-- the next priority when the batches have enough jobs, or when it has stepped over $6 batches with
-- nothing to run: the next look goes on behind those (a round, see rounds). Lower priorities
-- need fewer jobs each. The visit ends after some priorities, or with a row without a priority when
-- there is nothing more.
--
-- $1 class, $2 tenant, $3 jobs wanted, $4 minus the priority to begin below, $5 priorities to visit
-- $6 batches to step over in each priority, $7 rounds: JSON, "tenant priority class" → place
-- $8 jobs that batches hold: JSON, "tenant batch" → number, $9 jobs of a batch in one turn
-- $10 jobs of a batch to read in any case, of each visit: they save another statement
WITH visits AS MATERIALIZED (
	SELECT v.* FROM unnest($1::text[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $10::integer[]) WITH ORDINALITY
		AS v (pool, tenant_id, wants, above, tiers, ahead, nth)
	WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = v.tenant_id AND t.paused_at IS NOT NULL))
SELECT v.nth, s.priority, s.batch_id, s.lane, s.capped, s.allowed, s.ids, (1000 * extract(epoch FROM now() - s.head_at))::bigint, s.label_caps, s.finds, s.skips, s.cut
FROM visits v, LATERAL (
	WITH RECURSIVE steps AS (
		SELECT NULL::integer AS priority, NULL::uuid AS batch_id, NULL::integer AS lane, false AS capped, false AS allowed,
			'{}'::uuid[] AS ids, NULL::timestamptz AS head_at, NULL::jsonb AS label_caps, 0 AS tier, 0::bigint AS filled, 0::bigint AS skipped,
			false AS finds, false AS skips, false AS cut, false AS ends,
			v.above AS from_above, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid AS from_batch, 2147483647 AS from_lane
		UNION ALL
		SELECT next.priority, next.batch_id, next.lane, coalesce(next.capped, false), coalesce(next.allowed, false), jobs.ids, next.created_at,
			CASE WHEN next.capped THEN next.label_caps END, tier.n, sum.filled, sum.skipped, sum.finds, sum.skipped >= $6::integer AND sum.filled < tier.wants, sum.filled >= tier.wants,
			next.priority IS NULL OR tier.n > v.tiers OR tier.n = v.tiers AND enough.yes,
			-next.priority,
			CASE WHEN enough.yes THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff' WHEN round.ahead THEN round.batch ELSE next.batch_id END,
			CASE WHEN enough.yes THEN 2147483647 WHEN round.ahead THEN round.lane ELSE next.lane END
		FROM steps s
		LEFT JOIN LATERAL (
			SELECT j.id, j.priority, j.batch_id, CASE WHEN j.lane > 0 THEN 2147483647 ELSE 0 END AS lane, j.lane > 0 AS capped, j.created_at,
				(j.not_before IS NULL OR j.not_before <= now()) AND (j.expires_at IS NULL OR j.expires_at > now()) AS ready,
				j.batch_id = '00000000-0000-0000-0000-000000000000' AS single,
				j.batch_id = '00000000-0000-0000-0000-000000000000'
					OR b.tenant_id = v.tenant_id AND b.sealed_at IS NOT NULL AND NOT b.cancel_requested AND b.paused_at IS NULL AS allowed,
				b.label_caps
			FROM (SELECT j.id, j.priority, j.batch_id, j.lane, j.created_at, j.not_before, j.expires_at FROM live_jobs j
				WHERE j.state = 'queued' AND j.pool = v.pool AND j.tenant_id = v.tenant_id
					AND (-j.priority, j.batch_id, j.lane) > (s.from_above, s.from_batch, s.from_lane)
				ORDER BY j.tenant_id, -j.priority, j.batch_id, j.lane, j.id LIMIT 1) j
			LEFT JOIN batches b ON b.id = j.batch_id) next ON true
		LEFT JOIN LATERAL (
			SELECT (r.place ->> 'batch')::uuid AS batch, (r.place ->> 'lane')::integer AS lane,
				(next.batch_id, next.lane) < ((r.place ->> 'batch')::uuid, (r.place ->> 'lane')::integer) AS ahead
			FROM (SELECT $7::jsonb -> (v.tenant_id || ' ' || next.priority || ' ' || v.pool) AS place) r WHERE r.place IS NOT NULL) round ON true
		CROSS JOIN LATERAL (
			SELECT same.yes AS same, s.tier + CASE WHEN same.yes THEN 0 ELSE 1 END AS n,
				greatest(ceil(v.wants / 2 ^ least(s.tier - CASE WHEN same.yes THEN 1 ELSE 0 END, 30)), least(v.wants, 16)) AS wants
			FROM (SELECT coalesce(next.priority = s.priority, false) AS yes) same) tier
		CROSS JOIN LATERAL (
			SELECT $9::bigint - coalesce(($8::jsonb ->> (v.tenant_id || ' ' || next.batch_id))::bigint, 0) AS n OFFSET 0) room
		CROSS JOIN LATERAL (
			SELECT CASE WHEN next.capped OR NOT next.allowed OR next.id IS NULL THEN '{}'
				WHEN next.ready AND greatest(room.n, v.ahead) <= 1 THEN ARRAY[next.id]
				ELSE ARRAY(SELECT j.id FROM live_jobs j
					WHERE j.state = 'queued' AND j.pool = v.pool AND j.tenant_id = v.tenant_id AND j.batch_id = next.batch_id AND j.priority = next.priority AND j.lane = 0
						AND (j.not_before IS NULL OR j.not_before <= now()) AND (j.expires_at IS NULL OR j.expires_at > now())
					ORDER BY j.tenant_id, j.batch_id, j.priority, j.lane, j.id LIMIT greatest(room.n, v.ahead, 1)) END AS ids OFFSET 0) jobs
		CROSS JOIN LATERAL (
			SELECT CASE WHEN next.ready AND room.n > 0 THEN least(cardinality(jobs.ids), room.n) ELSE 0 END AS n) adds
		CROSS JOIN LATERAL (
			SELECT CASE WHEN tier.same THEN s.filled ELSE 0 END + CASE WHEN next.single THEN 0 ELSE adds.n END AS filled,
				CASE WHEN tier.same THEN s.skipped ELSE 0 END + CASE WHEN adds.n > 0 THEN 0 ELSE 1 END AS skipped,
				tier.same AND s.finds OR adds.n > 0 AND NOT next.single AND round.ahead IS NOT TRUE AS finds) sum
		CROSS JOIN LATERAL (SELECT sum.filled >= tier.wants OR sum.skipped >= $6::integer AS yes) enough
		WHERE NOT s.ends)
	SELECT * FROM steps WHERE tier > 0) s
