package lifecycle

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// repeats looks into the partial index on records that may be repeated. A record
// that was an answer itself has given up its key, so the origin is always one
// that ran.
// Those that are more than repeatBytes after the others are left out: their jobs run.
var repeats = fmt.Sprintf(`
SELECT * FROM (SELECT j.id, j.dispatch_gen, j.batch_id, s.spec, `+repeatSize+`, `+format.ResultColumns+`
FROM unnest($2::uuid[], $3::integer[]) AS i (id, gen)
JOIN live_jobs j ON j.id = i.id AND j.id >= $1 AND j.state || '' = 'dispatched' AND j.dispatch_gen = i.gen AND j.cache_key IS NOT NULL
CROSS JOIN LATERAL (
	SELECT o.id FROM jobs o
	WHERE o.tenant_id = j.tenant_id AND o.cache_key = j.cache_key AND o.cache_key IS NOT NULL
		AND o.outcome IN ('succeeded', 'failed', 'exception')
	ORDER BY o.tenant_id DESC, o.cache_key DESC, o.id DESC LIMIT 1) o
JOIN results r ON r.id = o.id
JOIN live_specs s ON s.id = j.id AND s.id >= $1) AS found (job, gen, batch, spec, before, id, batch_id, seq, lease, outcome, reason, worker, identity, attempts, body)
WHERE before < %d`, repeatBytes)

const (
	repeatBytes = 16 << 20 // specs and records of one answer, besides the last
	repeatSize  = `coalesce(sum(octet_length(s.spec) + octet_length(r.body)) OVER (ORDER BY j.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)`
)

// Repeats implements store.ResultCache.
func (s *Transitions) Repeats(ctx context.Context, refs []store.Ref) (out []store.Repeat, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	ids, gens, first := refArrays(refs)
	err = s.db.Urgent(ctx, "repeats", func(ctx context.Context) error {
		rows, err := s.db.Pool.Query(ctx, repeats, first, ids, gens)
		if err != nil {
			return err
		}
		var id, batch pgtype.UUID
		var p store.Repeat
		var r format.Result
		var before int64
		out = nil
		_, err = pgx.ForEachRow(rows, append([]any{&id, &p.Generation, &batch, &p.Spec, &before}, r.Targets()...), func() error {
			p.Job, p.BatchID, p.Origin, p.Record = pg.JobID(id), pg.BatchID(batch), pg.JobID(r.ID), r.JSON()
			out = append(out, p)
			p.Spec = nil // the next row gets its own memory
			return nil
		})
		return err
	})
	return out, err
}

func refArrays(refs []store.Ref) (ids []pgtype.UUID, gens []int32, first pgtype.UUID) {
	order, first := byID(len(refs), func(i int) job.ID { return refs[i].Job })
	for _, i := range order {
		ids = append(ids, pg.UUID(refs[i].Job))
		gens = append(gens, int32(refs[i].Generation))
	}
	return ids, gens, first
}

// answer is guarded as a claim is: one of the two wins.
var answer = `
WITH moved AS (
	UPDATE live_jobs j SET state = 'finished', outcome = r.outcome, ended_at = now(), cache_key = NULL
	FROM unnest($2::uuid[], $3::integer[], $4::uuid[]) AS i (id, gen, origin) JOIN results r ON r.id = i.origin
	WHERE j.id = i.id AND j.id >= $1 AND j.state || '' = 'dispatched' AND j.dispatch_gen = i.gen AND r.tenant_id = j.tenant_id
		AND r.outcome IN ('succeeded', 'failed', 'exception')
		AND NOT j.cancel_requested AND (j.expires_at IS NULL OR j.expires_at > now())
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, 0::bigint AS lease, '' AS reason, j.worker, j.identity, j.earlier,
		'"cached":true,"cached_from":"' || r.id || '",' || r.body AS body,
		NULL::text AS attempt_outcome, '' AS message, j.started_at)` + recordTail

// Answer implements store.ResultCache.
func (s *Transitions) Answer(ctx context.Context, rs []store.Repeat) (out []store.Ref, err error) {
	if len(rs) == 0 {
		return nil, nil
	}
	order, first := byID(len(rs), func(i int) job.ID { return rs[i].Job })
	var ids, origins []pgtype.UUID
	var gens []int32
	generation := make(map[job.ID]job.Generation, len(rs))
	for _, i := range order {
		ids, gens, origins = append(ids, pg.UUID(rs[i].Job)), append(gens, int32(rs[i].Generation)), append(origins, pg.UUID(rs[i].Origin))
		generation[rs[i].Job] = rs[i].Generation
	}
	err = s.db.Urgent(ctx, "answer", func(ctx context.Context) error {
		ended, err := s.record(ctx, answer, first, ids, gens, origins)
		out = nil
		for _, e := range ended {
			out = append(out, store.Ref{Job: e.id, Generation: generation[e.id]})
		}
		return err
	})
	return out, err
}
