package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// groupSteps are the numbers of waiting batches in each measurement. The small number is measured
// before and after the large one, so that a machine that slows down does not distort the ratio.
var groupSteps = []int{10, 10_000, 10}

const (
	groupJobs    = 200    // of each batch, unless -n sets it: 10,000 times 2,000 take 20 GB
	groupWarm    = 2_000  // warm-up jobs
	groupMeasure = 32_000 // measured jobs
)

// groups measures the control plane alone (see noop) while few and while many batches wait. "ratio"
// is the rate beside 10,000 to the mean rate beside 10. "look_ratio" is the same for the mean time
// of a scheduler pass. The rows of the batches are written directly into the database, all at once.
func groups(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, noopEnv)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	db, err := t.database()
	if err != nil {
		return nil, err
	}
	b.logf("warming up")
	if _, err := t.runBatch(ctx, pythonJob("task"), 4000); err != nil {
		return nil, err
	}
	each := b.n
	if each == 0 {
		each = groupJobs
	}
	rates, looks := map[int][]float64{}, map[int][]float64{}
	for _, n := range groupSteps {
		b.logf("%d batches", n)
		jobs := each
		if n*jobs < 2*(groupWarm+groupMeasure) { // enough jobs until the end
			jobs = 2 * (groupWarm + groupMeasure) / n
		}
		if err := db.Run(ctx, liveBatches(n, jobs)); err != nil {
			return nil, fmt.Errorf("make %d batches: %w", n, err)
		}
		got, look, err := t.recordingRate(ctx)
		if err != nil {
			return nil, err
		}
		rates[n], looks[n] = append(rates[n], got), append(looks[n], look)
		if err := db.Run(ctx, endBatches); err != nil {
			return nil, fmt.Errorf("remove %d batches: %w", n, err)
		}
	}
	few, many := groupSteps[0], groupSteps[1]
	return Report{
		"jobs_per_batch": each, "jobs_per_s_by_batches": rates, "look_ms_by_batches": looks,
		"ratio": Round(Mean(rates[many])/Mean(rates[few]), 3), "look_ratio": Round(Mean(looks[many])/Mean(looks[few]), 3),
	}, nil
}

// liveBatches writes n batches of that many queued jobs each, copied from the last batch that
// ended, in one transaction. Their name marks them.
func liveBatches(n, jobs int) []string {
	ms := time.Now().UnixMilli()
	batch := fmt.Sprintf(`(lpad(to_hex(%d::bigint), 12, '0') || '70008' || lpad(to_hex(g), 15, '0'))::uuid`, ms)
	id := fmt.Sprintf(`(lpad(to_hex(%d::bigint), 12, '0') || '70018' || lpad(to_hex(g::bigint * %d + l), 15, '0'))::uuid`, ms, jobs)
	return []string{fmt.Sprintf(`BEGIN;
CREATE TEMPORARY TABLE model ON COMMIT DROP AS SELECT j.tenant_id, j.pool, j.identity, s.spec FROM jobs j JOIN specs s ON s.id = j.id WHERE j.state = 'finished' LIMIT 1;
INSERT INTO batches (id, tenant_id, name, sealed_at) SELECT %[1]s, tenant_id, 'groups', now() FROM model, generate_series(1, %[3]d) g;
INSERT INTO batch_counts (batch_id, total) SELECT %[1]s, %[4]d FROM generate_series(1, %[3]d) g;
INSERT INTO specs (id, spec) SELECT %[2]s, spec FROM model, generate_series(1, %[3]d) g, generate_series(0, %[4]d - 1) l;
INSERT INTO jobs (id, batch_id, tenant_id, pool, identity) SELECT %[2]s, %[1]s, tenant_id, pool, identity
	FROM model, generate_series(1, %[3]d) g, generate_series(0, %[4]d - 1) l;
COMMIT`, batch, id, n, jobs)}
}

// endBatches ends the remaining jobs of the batches, so that they are no longer in the queue.
// Dispatched jobs end by themselves before.
var endBatches = []string{
	`UPDATE batches SET cancel_requested = true WHERE name = 'groups'`, `SELECT pg_sleep(3)`, `
WITH ended AS (
	UPDATE jobs SET state = 'canceled', outcome = 'canceled', ended_at = now()
	WHERE state = 'queued' AND batch_id IN (SELECT id FROM batches WHERE name = 'groups') RETURNING batch_id),
each AS (SELECT batch_id, count(*) AS n FROM ended GROUP BY batch_id)
UPDATE batch_counts c SET canceled = c.canceled + n, recorded = c.recorded + n, ended_at = CASE WHEN c.recorded + n = c.total THEN now() END
FROM each e WHERE e.batch_id = c.batch_id`, `VACUUM jobs, batch_counts`}

// recordingRate returns how many jobs a second are recorded, and the mean time of a scheduler pass
// meanwhile, from the dispatcher's counters.
func (t *target) recordingRate(ctx context.Context) (jobs, lookMS float64, err error) {
	const recorded, looks, ms = "assay_jobs_finished_total", "assay_look_milliseconds_count", "assay_look_milliseconds_sum"
	start, err := t.counters(ctx, recorded, looks, ms)
	if err != nil {
		return 0, 0, err
	}
	var began time.Time
	var from map[string]float64
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		now, err := t.counters(ctx, recorded, looks, ms)
		if err != nil {
			return 0, 0, err
		}
		switch {
		case began.IsZero() && now[recorded] >= start[recorded]+groupWarm:
			began, from = time.Now(), now
		case !began.IsZero() && now[recorded] >= from[recorded]+groupMeasure:
			return Rate(int(now[recorded]-from[recorded]), time.Since(began)),
				Round((now[ms]-from[ms])/max(now[looks]-from[looks], 1), 3), nil
		}
	}
	return 0, 0, fmt.Errorf("%d jobs were not recorded within 3 minutes", groupWarm+groupMeasure)
}

// counters returns the sums of the series of some names in /metrics. A missing name is an error.
func (t *target) counters(ctx context.Context, names ...string) (map[string]float64, error) {
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	rs, err := http.DefaultClient.Do(rq)
	if err != nil {
		return nil, err
	}
	defer rs.Body.Close()
	sums := map[string]float64{}
	for lines := bufio.NewScanner(rs.Body); lines.Scan(); {
		line := lines.Text()
		at := strings.LastIndex(line, " ")
		if at < 0 {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil && slices.Contains(names, name) {
			sums[name] += v
		}
	}
	if len(sums) < len(names) {
		return nil, fmt.Errorf("%s/metrics has %d of %v (%s)", t.url, len(sums), names, rs.Status)
	}
	return sums, nil
}
