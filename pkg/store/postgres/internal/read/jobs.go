package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// jobsLook is how many jobs, whoever's, one page is looked for in. No index has a tenant's
// jobs, or those with a label: each would be paid for by every submit and every change of
// a job's state. So a page may end before it is full, and the next begins there.
const jobsLook = 50_000

// jobsSlack is how far apart the clocks are by which a batch and its jobs have their ids.
const jobsSlack = 2 * time.Minute

// jobsTo is where a look from $1 down to $2 ends, if it does not come to $2.
func jobsTo(table string) string {
	return `SELECT j.id FROM ` + table + ` j WHERE j.id < $1 AND j.id >= $2 ORDER BY j.id DESC OFFSET $3 LIMIT 1`
}

// listJobs is a page of a look. Jobs of batches that are open are none yet. The state and the outcome
// are compared in a way that no index answers, so that the plan is always along the ids.
func listJobs(table string) string {
	return `
SELECT j.id, j.batch_id, j.identity, j.state, j.outcome, CASE WHEN j.state IN ('queued', 'dispatched') THEN '' ELSE coalesce(j.worker, '') END,
	j.created_at, CASE WHEN j.state IN ('queued', 'dispatched') THEN NULL ELSE j.started_at END, j.ended_at
FROM ` + table + ` j LEFT JOIN batches b ON b.id = j.batch_id
WHERE j.id < $1 AND j.id >= $2 AND ($3::integer = 0 OR j.tenant_id = $3) AND ($4 = '' OR j.state || '' = $4) AND ($8 = '' OR j.outcome || '' = $8)
	AND ($5::uuid IS NULL OR j.batch_id = $5) AND (b.id IS NULL OR b.sealed_at IS NOT NULL)
	AND ($6::jsonb IS NULL OR coalesce(b.labels::jsonb, '{}') || coalesce(('{' || rtrim(j.identity, ',') || '}')::jsonb -> 'labels', '{}') @> $6::jsonb)
ORDER BY j.id DESC LIMIT $7`
}

// Jobs implements store.Reader.
func (s *Reader) Jobs(ctx context.Context, tenant string, f store.JobFilter, before job.ID, limit int) (out []job.Summary, next job.ID, err error) {
	err = s.db.Do(ctx, "list jobs", func(ctx context.Context) error {
		t, err := s.db.KnownTenant(ctx, tenant)
		if err != nil {
			return err
		}
		from, to, err := s.jobsSpan(ctx, t, f)
		if err != nil {
			return err
		}
		if before != "" {
			from = min(from, before)
		}
		table := "jobs"
		if f.State != "" && !f.State.Terminal() {
			table = "live_jobs" // there are none elsewhere
		}
		var end pgtype.UUID
		err = s.db.Pool.QueryRow(ctx, jobsTo(table), pg.UUID(from), pg.UUID(to), s.jobsLook-1).Scan(&end)
		more := err == nil
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if more {
			to = pg.JobID(end)
		}
		var full bool
		if out, full, err = s.listJobs(ctx, listJobs(table), t, f, from, to, limit); err != nil {
			return err
		}
		switch next = ""; {
		case full:
			next = out[len(out)-1].ID
		case more:
			next = to
		}
		return nil
	})
	if err != nil && f.Batch != "" {
		err = s.db.Gone(ctx, f.Batch, err)
	}
	return out, next, err
}

// jobsSpan returns between which ids the jobs are. Those of a batch were drawn while it
// was uploaded.
func (s *Reader) jobsSpan(ctx context.Context, tenant int32, f store.JobFilter) (from, to job.ID, err error) {
	from, to = pg.LastID, pg.NilID
	if !f.Since.IsZero() {
		to = job.FirstIDAt(f.Since)
	}
	if f.Batch == "" {
		return from, to, nil
	}
	var created, sealed time.Time
	err = s.db.Pool.QueryRow(ctx, `SELECT created_at, sealed_at FROM batches
		WHERE id = $1 AND sealed_at IS NOT NULL AND (tenant_id = $2 OR $2::integer = 0)`, pg.UUID(f.Batch), tenant).Scan(&created, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return from, to, fmt.Errorf("%w: batch %s", job.ErrNotFound, f.Batch)
	}
	if err != nil {
		return from, to, err
	}
	made := f.Batch.Time() // by the clock of its dispatcher, as the ids of its jobs; the others are the server's
	end := made.Add(sealed.Sub(created))
	if end.Before(sealed) {
		end = sealed
	}
	return job.FirstIDAt(end.Add(jobsSlack)), max(to, job.FirstIDAt(made.Add(-jobsSlack))), nil
}

// listJobs reads up to limit jobs, fewer where they have store.PageBytes; full: there may
// be more.
func (s *Reader) listJobs(ctx context.Context, sql string, tenant int32, f store.JobFilter, from, to job.ID, limit int) (out []job.Summary, full bool, err error) {
	var batch pgtype.UUID
	if f.Batch != "" {
		batch = pg.UUID(f.Batch)
	}
	rows, err := s.db.Pool.Query(ctx, sql, pg.UUID(from), pg.UUID(to), tenant, string(f.State), batch, pg.LabelsText(f.Labels), limit, string(f.Outcome))
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	bytes := 0
	for rows.Next() {
		j, size, err := scanSummary(rows)
		if err != nil {
			return nil, false, err
		}
		out = append(out, j)
		if bytes += size; bytes >= store.PageBytes || len(out) == limit {
			return out, true, nil
		}
	}
	return out, false, rows.Err()
}

func scanSummary(row pgx.Row) (j job.Summary, bytes int, err error) {
	var id, batch pgtype.UUID
	var identity string
	var outcome *job.Outcome
	var started, ended *time.Time
	if err := row.Scan(&id, &batch, &identity, &j.State, &outcome, &j.Worker, &j.CreatedAt, &started, &ended); err != nil {
		return j, 0, err
	}
	j.ID, j.BatchID, j.StartedAt, j.EndedAt = pg.JobID(id), pg.BatchID(batch), pg.OrZero(started), pg.OrZero(ended)
	if outcome != nil {
		j.Outcome = *outcome
	}
	who := struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	}{}
	if err := json.Unmarshal([]byte("{"+strings.TrimSuffix(identity, ",")+"}"), &who); err != nil {
		return j, 0, fmt.Errorf("postgres: identity of job %s: %w", j.ID, err)
	}
	j.Name, j.Labels = who.Name, who.Labels
	return j, len(identity), nil
}
