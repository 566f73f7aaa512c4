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
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// repeatFor is the greatest age of a record that answers another job. Records older than the default retention are not
// searched: a search goes through days, and each costs.
const repeatFor = 36 * 24 * time.Hour

// repeats searches the partial index on repeatable records of some days. A record that was an answer itself has given
// up its key, so the origin is always a job that ran. The records after the first repeatBytes are left out: their jobs
// run.
func repeats(days pg.Days) string {
	return fmt.Sprintf(`
SELECT * FROM (SELECT j.id, j.dispatch_gen, j.batch_id, s.spec, `+repeatSize+`, `+format.ResultColumns+`
FROM unnest($2::uuid[], $3::integer[]) AS i (id, gen)
JOIN live_jobs j ON j.id = i.id AND j.id >= $1 AND j.state || '' = 'dispatched' AND j.dispatch_gen = i.gen AND j.cache_key IS NOT NULL
CROSS JOIN LATERAL (
	SELECT o.id FROM jobs o
	WHERE o.tenant_id = j.tenant_id AND o.cache_key = j.cache_key AND o.cache_key IS NOT NULL
		AND o.outcome IN ('succeeded', 'failed', 'exception') AND `+days.In("o.id")+`
	ORDER BY o.tenant_id DESC, o.cache_key DESC, o.id DESC LIMIT 1) o
CROSS JOIN LATERAL (SELECT * FROM results r WHERE r.id = o.id AND `+days.In("r.id")+` OFFSET 0) r
JOIN live_specs s ON s.id = j.id AND s.id >= $1) AS found (job, gen, batch, spec, before, id, batch_id, seq, lease, outcome, reason, worker, identity, attempts, body)
WHERE before < %d`, repeatBytes)
}

const (
	repeatBytes = 16 << 20 // specs and records of one answer, besides the last
	repeatSize  = `coalesce(sum(octet_length(s.spec) + octet_length(r.body)) OVER (ORDER BY j.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)`
)

// Repeats implements store.ResultCache. It looks for the newest records first, some days at a time.
func (s *Transitions) Repeats(ctx context.Context, refs []store.Ref) (out []store.Repeat, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	err = s.db.Urgent(ctx, "repeats", func(ctx context.Context) error {
		out = nil
		windows, err := s.db.Windows(ctx, job.FirstIDAt(time.Now().Add(-repeatFor)), pg.LastID)
		if err != nil {
			return err
		}
		left, bytes := refs, 0
		for _, days := range windows {
			found, err := s.repeatsOf(ctx, days, left)
			if err != nil {
				return err
			}
			answered := make(map[job.ID]bool, len(found))
			for _, p := range found {
				answered[p.Job] = true
				bytes += len(p.Spec) + len(p.Record)
			}
			out = append(out, found...)
			left = slices.DeleteFunc(slices.Clone(left), func(r store.Ref) bool { return answered[r.Job] })
			if len(left) == 0 || bytes >= repeatBytes {
				return nil
			}
		}
		return nil
	})
	return out, err
}

func (s *Transitions) repeatsOf(ctx context.Context, days pg.Days, refs []store.Ref) (out []store.Repeat, err error) {
	ids, gens, first := refArrays(refs)
	rows, err := s.db.Pool.Query(ctx, repeats(days), first, ids, gens)
	if err != nil {
		return nil, err
	}
	var id, batch pgtype.UUID
	var p store.Repeat
	var r format.Result
	var before int64
	_, err = pgx.ForEachRow(rows, append([]any{&id, &p.Generation, &batch, &p.Spec, &before}, r.Targets()...), func() error {
		p.Job, p.BatchID, p.Origin, p.Record = pg.JobID(id), pg.BatchID(batch), pg.JobID(r.ID), r.JSON()
		out = append(out, p)
		p.Spec = nil // the next row gets its own memory
		return nil
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

// answer ends jobs with the records of others, of one day. It is guarded as a claim is: one of the two wins.
func answer(day pg.Days) string {
	return `
WITH moved AS (
	UPDATE live_jobs j SET state = 'finished', outcome = r.outcome, ended_at = now(), cache_key = NULL
	FROM unnest($2::uuid[], $3::integer[], $4::uuid[]) AS i (id, gen, origin) CROSS JOIN LATERAL (SELECT r.id, r.outcome, r.tenant_id, r.body FROM results r WHERE r.id = i.origin AND ` + day.In("r.id") + ` OFFSET 0) r
	WHERE j.id = i.id AND j.id >= $1 AND j.state || '' = 'dispatched' AND j.dispatch_gen = i.gen AND r.tenant_id = j.tenant_id
		AND r.outcome IN ('succeeded', 'failed', 'exception')
		AND NOT j.cancel_requested AND (j.expires_at IS NULL OR j.expires_at > now())
	RETURNING j.id, j.batch_id, j.tenant_id, j.state, j.outcome, 0::bigint AS lease, '' AS reason, j.worker, j.identity, j.earlier,
		'"cached":true,"cached_from":"' || r.id || '",' || r.body AS body,
		NULL::text AS attempt_outcome, '' AS message, j.started_at)` + recordTail
}

// Answer implements store.ResultCache.
func (s *Transitions) Answer(ctx context.Context, rs []store.Repeat) (out []store.Ref, err error) {
	days, of := pg.ByDay(rs, func(r store.Repeat) job.ID { return r.Origin })
	for _, day := range days {
		done, err := s.answer(ctx, day, of[day])
		out = append(out, done...)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// answer is Answer for records of one day.
func (s *Transitions) answer(ctx context.Context, day pg.Days, rs []store.Repeat) (out []store.Ref, err error) {
	order, first := byID(len(rs), func(i int) job.ID { return rs[i].Job })
	var ids, origins []pgtype.UUID
	var gens []int32
	generation := make(map[job.ID]job.Generation, len(rs))
	for _, i := range order {
		ids, gens, origins = append(ids, pg.UUID(rs[i].Job)), append(gens, int32(rs[i].Generation)), append(origins, pg.UUID(rs[i].Origin))
		generation[rs[i].Job] = rs[i].Generation
	}
	err = s.db.Urgent(ctx, "answer", func(ctx context.Context) error {
		ended, err := s.record(ctx, answer(day), first, ids, gens, origins)
		out = nil
		for _, e := range ended {
			out = append(out, store.Ref{Job: e.id, Generation: generation[e.id]})
		}
		return err
	})
	return out, err
}
