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
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// jobsLook is how many jobs of any tenant are searched for one page. No index has a tenant's jobs, or the jobs with a
// label: every submit and every change of a job's state would pay for it. So a page may end before it is full, and the
// next begins there.
const jobsLook = 20_000

const (
	// firstParts is into how many parts as large as its first a look could be divided; one has at least leastPart jobs.
	firstParts = 4
	leastPart  = 100
	// jobsPatience is after how long no further part of a look is begun.
	jobsPatience = 20 * time.Millisecond
	// emptyPatience is the time after which a look reads no further window of days. Windows with few jobs cost their
	// plans.
	emptyPatience = 500 * time.Millisecond
)

// How much more than a look at a job alone it costs to read its labels, or its record and its spec as well.
const (
	readsLabels = 4
	readsBodies = 10
)

// maxMessage is how much of a message a list has, in characters.
const maxMessage = 200

// jobTables are the tables that a list of jobs is read from, and the ids that it may have.
type jobTables struct {
	jobs, specs, results string
	days                 pg.Days
}

// recordedJobs are the jobs of some days, in any state.
func recordedJobs(days pg.Days) jobTables { return jobTables{"jobs", "specs", "results", days} }

// unfinishedJobs are those among the jobs of some days that the queue works on.
func unfinishedJobs(days pg.Days) jobTables {
	return jobTables{"live_jobs", "live_specs", "live_results", days}
}

// underwayJobs are the jobs of an active state, at most as many as the windows and the fleet's slots, in an index that
// has no others.
func underwayJobs(state job.State) jobTables {
	return jobTables{`(SELECT * FROM live_jobs WHERE state = '` + string(state) + `' ORDER BY tenant_id, batch_id OFFSET 0)`, "live_specs", "live_results", pg.Days{First: pg.NilID, Below: pg.LastID}}
}

// jobsTo is where a look from $1 down to $2 ends, if it does not come to $2.
func jobsTo(t jobTables) string {
	return `SELECT j.id FROM ` + t.jobs + ` j WHERE j.id < $1 AND j.id >= $2 AND ` + t.days.In("j.id") + ` ORDER BY j.id DESC OFFSET $3 LIMIT 1`
}

// listJobs is a page of a look, with fields of the specs and the records of its jobs. It omits jobs of open batches.
// The comparisons of state and outcome suit no index, so the plan always follows the ids.
func listJobs(t jobTables) string {
	const started = `CASE WHEN j.state IN ('queued', 'dispatched') THEN NULL ELSE j.started_at END`
	return `
SELECT j.id, j.batch_id, t.name, j.identity, j.state, j.outcome, j.worker, j.created_at, j.began, j.ended_at,
	coalesce(extract(epoch FROM coalesce(j.ended_at, now()) - j.began) * 1000, 0)::float8,
	j.priority, j.earlier, coalesce(r.reason, ''), coalesce(r.lease > 0, j.state = 'running'), coalesce(` + format.ReasonSQL + `, ''), coalesce(` + format.Failure + `, ''), ` + format.Image + `
FROM (
	SELECT j.id, j.batch_id, j.tenant_id, j.identity, j.state, j.outcome, CASE WHEN j.state IN ('queued', 'dispatched') THEN '' ELSE coalesce(j.worker, '') END AS worker,
		j.created_at, ` + started + ` AS began, j.ended_at, j.priority, j.earlier
	FROM ` + t.jobs + ` j LEFT JOIN batches b ON b.id = j.batch_id
	WHERE j.id < $1 AND j.id >= $2 AND ` + t.days.In("j.id") + ` AND ($3::integer = 0 OR j.tenant_id = $3) AND ($4 = '' OR j.state || '' = $4) AND ($8 = '' OR j.outcome || '' = $8)
		AND ($5::uuid IS NULL OR j.batch_id = $5) AND (b.id IS NULL OR b.sealed_at IS NOT NULL)
		AND (NOT $9::boolean OR j.outcome || '' <> 'succeeded')
		AND ($17 = '' OR j.outcome || '' = $17 AND $17 <> 'failed' OR j.outcome || '' = 'failed' AND EXISTS (
			SELECT FROM ` + t.results + ` r WHERE r.id = j.id AND ` + t.days.In("r.id") + ` AND ` + format.Failure + ` = $17 OFFSET 0))
		AND ($10 = '' OR CASE WHEN j.state IN ('queued', 'dispatched') THEN '' ELSE j.worker END = $10)
		AND ($11::bigint = 0 OR coalesce(j.ended_at, now()) - ` + started + ` >= $11::bigint * interval '1 microsecond')
		AND ($12::bigint = 0 OR coalesce(j.ended_at, now()) - ` + started + ` <= $12::bigint * interval '1 microsecond')
		AND ($6::jsonb IS NULL OR coalesce(b.labels::jsonb, '{}') || coalesce(('{' || rtrim(j.identity, ',') || '}')::jsonb -> 'labels', '{}') @> $6::jsonb)
		AND ($13 = '' OR ('{' || rtrim(j.identity, ',') || '}')::jsonb ->> 'name' = $13)
		AND ($14 = '' OR starts_with(('{' || rtrim(j.identity, ',') || '}')::jsonb ->> 'name', $14))
		AND ($15 = '' OR EXISTS (SELECT FROM ` + t.specs + ` s WHERE s.id = j.id AND ` + t.days.In("s.id") + ` AND ` + format.Image + ` = $15 OFFSET 0))
		AND (cardinality($16::text[]) = 0 OR EXISTS (
			SELECT FROM (SELECT lower(` + format.ReasonSQL + `) AS said FROM ` + t.results + ` r WHERE r.id = j.id AND ` + t.days.In("r.id") + ` OFFSET 0) told, unnest($16::text[]) AS w (words) WHERE strpos(told.said, lower(w.words)) > 0))
	ORDER BY j.id DESC LIMIT $7) j
JOIN tenants t ON t.id = j.tenant_id LEFT JOIN LATERAL (SELECT * FROM ` + t.specs + ` s WHERE s.id = j.id AND ` + t.days.In("s.id") + ` OFFSET 0) s ON true
	LEFT JOIN LATERAL (SELECT * FROM ` + t.results + ` r WHERE r.id = j.id AND j.outcome IS NOT NULL AND ` + t.days.In("r.id") + ` OFFSET 0) r ON true
ORDER BY j.id DESC`
}

// BrowseJobs implements store.Browser.
func (s *Reader) BrowseJobs(ctx context.Context, tenant string, q store.JobQuery) (page store.JobPage, err error) {
	err = s.db.Do(ctx, "list jobs", func(ctx context.Context) error {
		t, err := s.db.LookupTenant(ctx, tenant)
		if err != nil {
			return err
		}
		from, to, err := s.jobsSpan(ctx, t, q)
		if err != nil {
			return err
		}
		switch q.State {
		case job.Running, job.Dispatched:
			page, _, err = s.listJobs(ctx, listJobs(underwayJobs(q.State)), t, q, from, to, 0)
		case job.Queued:
			page, err = s.lookFor(ctx, unfinishedJobs, s.db.LiveWindows, t, q, from, to)
		default:
			page, err = s.lookFor(ctx, recordedJobs, s.db.Windows, t, q, from, to)
		}
		return err
	})
	if err != nil && q.Batch != "" {
		err = s.db.TranslateNotFound(ctx, q.Batch, err)
	}
	return page, err
}

// lookFor looks for a page in parts, each twice as large as the one before: most pages are full soon. It goes from one window of days to
// the window before, and ends where the page is full, so many jobs were looked at, or that took so long that a client would notice.
func (s *Reader) lookFor(ctx context.Context, tables func(pg.Days) jobTables, windows func(ctx context.Context, first, below job.ID) ([]pg.Days, error),
	tenant int32, q store.JobQuery, from, to job.ID) (page store.JobPage, err error) {
	days, err := windows(ctx, to, from)
	if err != nil {
		return page, err
	}
	l := look{began: time.Now(), left: max(s.jobsLook/costOf(q.JobFilter), 1)}
	l.part = max(l.left/firstParts, min(l.left, leastPart))
	for i, w := range days {
		more, err := s.lookInto(ctx, tables(w), &l, &page, tenant, q, min(from, w.Below), max(to, w.First))
		if err != nil || more {
			return page, err
		}
		if last := i == len(days)-1; !last && time.Since(l.began) > emptyPatience {
			page.Next = w.First
			return page, nil
		}
	}
	return page, nil
}

// look is how far a look for a page has come.
type look struct {
	began      time.Time
	left, part int64 // jobs
	bytes      int
}

// lookInto looks for a page in one window. It reports whether the page ends there, and where the next one begins.
func (s *Reader) lookInto(ctx context.Context, t jobTables, l *look, page *store.JobPage, tenant int32, q store.JobQuery, from, to job.ID) (ends bool, err error) {
	for ; ; l.part = min(2*l.part, l.left) {
		end, more, err := s.jobsTo(ctx, t, from, to, l.part)
		if err != nil {
			return false, err
		}
		rest := q
		rest.Limit -= len(page.Jobs)
		got, n, err := s.listJobs(ctx, listJobs(t), tenant, rest, from, end, l.bytes)
		page.Jobs, page.Next, l.bytes = append(page.Jobs, got.Jobs...), got.Next, n
		if err != nil || page.Next != "" {
			return page.Next != "", err
		}
		if !more {
			return false, nil
		}
		page.Next, from, l.left = end, end, l.left-l.part
		if l.left <= 0 || time.Since(l.began) > jobsPatience {
			return true, nil
		}
		page.Next = ""
	}
}

// costOf is how many times as much as a plain look at a job one with the filter costs.
func costOf(f store.JobFilter) int64 {
	switch {
	case f.Text != "" || f.Image != "" || f.Failure != "":
		return readsBodies
	case len(f.Labels) > 0 || f.Name != "" || f.NamePrefix != "":
		return readsLabels
	}
	return 1
}

// jobsTo returns where a look at so many jobs ends, and whether there are more behind it.
func (s *Reader) jobsTo(ctx context.Context, t jobTables, from, to job.ID, look int64) (end job.ID, more bool, err error) {
	var id pgtype.UUID
	err = s.db.Pool.QueryRow(ctx, jobsTo(t), pg.UUID(from), pg.UUID(to), max(look, 1)-1).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return to, false, nil
	}
	return pg.JobID(id), true, err
}

// jobsSpan returns between which ids the jobs are.
func (s *Reader) jobsSpan(ctx context.Context, tenant int32, q store.JobQuery) (from, to job.ID, err error) {
	from, to = pg.LastID, pg.NilID
	if !q.Since.IsZero() {
		to = job.FirstIDAt(q.Since)
	}
	if !q.Until.IsZero() {
		from = job.FirstIDAt(q.Until)
	}
	if q.Before != "" {
		from = min(from, q.Before)
	}
	if q.Batch == "" {
		return from, to, nil
	}
	b, err := s.spanOf(ctx, tenant, q.Batch)
	return min(from, b.below), max(to, b.first), err
}

// listJobs reads up to limit jobs, fewer where they have store.PageBytes with those bytes that there are already. Next is set
// if there may be more.
func (s *Reader) listJobs(ctx context.Context, sql string, tenant int32, q store.JobQuery, from, to job.ID, before int) (page store.JobPage, bytes int, err error) {
	var batch pgtype.UUID
	if q.Batch != "" {
		batch = pg.UUID(q.Batch)
	}
	rows, err := s.db.Pool.Query(ctx, sql, pg.UUID(from), pg.UUID(to), tenant, string(q.State), batch, pg.LabelsText(q.Labels), q.Limit, string(q.Outcome),
		q.Failed, q.Worker, q.MinDuration.Microseconds(), q.MaxDuration.Microseconds(), q.Name, q.NamePrefix, q.Image, spellings(q.Text), string(q.Failure))
	if err != nil {
		return page, before, err
	}
	defer rows.Close()
	bytes = before
	for n := 0; rows.Next(); {
		j, size, err := scanSummary(rows)
		if err != nil {
			return page, before, err
		}
		if hasText(j.Message, q.Text) {
			j.Message = clip(j.Message, maxMessage)
			page.Jobs = append(page.Jobs, j)
		}
		n++
		if bytes += size; bytes >= store.PageBytes || n == q.Limit {
			page.Next = j.ID
			return page, bytes, nil
		}
	}
	return page, bytes, rows.Err()
}

// spellings are the ways in which a text stands in a record: Go escapes more than the server does.
func spellings(text string) []string {
	if text == "" {
		return []string{}
	}
	var plain strings.Builder
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(pg.CleanText(text)) // a string always encodes
	escaped, _ := json.Marshal(pg.CleanText(text))
	return []string{strings.Trim(strings.TrimSpace(plain.String()), `"`), string(escaped[1 : len(escaped)-1])}
}

// hasText reports whether a message has the text, since the match may be elsewhere in the record.
func hasText(message, text string) bool {
	return text == "" || strings.Contains(strings.ToLower(message), strings.ToLower(text))
}

func clip(text string, most int) string {
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + "…"
		}
	}
	return text
}

func scanSummary(row pgx.Row) (j job.Summary, bytes int, err error) {
	var id, batch pgtype.UUID
	var identity, said string
	var outcome *job.Outcome
	var started, ended *time.Time
	var ran bool
	if err := row.Scan(&id, &batch, &j.Tenant, &identity, &j.State, &outcome, &j.Worker, &j.CreatedAt, &started, &ended, &j.DurationMS,
		&j.Priority, &j.Attempts, &j.Reason, &ran, &said, &j.Failure, &j.Image); err != nil {
		return j, 0, err
	}
	j.ID, j.BatchID, j.StartedAt, j.EndedAt = pg.JobID(id), pg.BatchID(batch), pg.OrZero(started), pg.OrZero(ended)
	if outcome != nil {
		j.Outcome = *outcome
	}
	if j.Outcome == job.Succeeded {
		j.Failure = ""
	}
	if ran {
		j.Attempts++
	}
	if exception, message := format.Decode(said); !strings.Contains(message, exception) {
		j.Message = strings.TrimSuffix(exception+": "+message, ": ")
	} else {
		j.Message = message
	}
	if j.Name, j.Labels, err = whoOf(identity); err != nil {
		return j, 0, fmt.Errorf("postgres: identity of job %s: %w", j.ID, err)
	}
	return j, len(identity) + len(said), nil
}

// whoOf returns the name and the labels in an identity.
func whoOf(identity string) (name string, labels map[string]string, err error) {
	who := struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	}{}
	err = json.Unmarshal([]byte("{"+strings.TrimSuffix(identity, ",")+"}"), &who)
	return who.Name, who.Labels, err
}
