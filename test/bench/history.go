package main

import (
	"context"
	"fmt"
	"time"
)

// historySteps are the numbers of days of history in each measurement.
var historySteps = []int{0, 35, 365, 0, 365, 0}

// historyRows is the number of ended jobs and results of each day of history.
const historyRows = 20

// history measures the control plane alone (see noop) with days of ended jobs besides today's, as
// many as a fleet keeps: 0, 35, 365, 0, 365 and 0. A ratio is the mean rate with that many days to
// the rate without. "ratio" is that for 365 days. It is measured between runs without history, so
// that a machine that slows down does not distort it.
func history(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, noopEnv, "ASSAY_RETENTION=0")
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	db, err := t.database()
	if err != nil {
		return nil, err
	}
	spec := pythonJob("task")
	b.logf("warming up")
	if _, err := t.runBatch(ctx, spec, 2000); err != nil {
		return nil, err
	}
	var sum outcome
	rates := map[int][]float64{}
	measure := func(days int) (float64, error) {
		b.logf("%d days of history", days)
		if _, err := t.runBatch(ctx, spec, 500); err != nil { // plans are made again
			return 0, err
		}
		o, err := t.batches(ctx, spec, b.n, b.duration, 2000)
		if err != nil {
			return 0, err
		}
		sum.add(o)
		return Rate(o.jobs, o.took), nil
	}
	had := 0
	for _, days := range historySteps {
		if days < had {
			if err := dropDays(ctx, db, had); err != nil {
				return nil, fmt.Errorf("remove days of history: %w", err)
			}
			had = 0
		}
		if err := addDays(ctx, db, had, days); err != nil {
			return nil, fmt.Errorf("add days of history: %w", err)
		}
		had = days
		got, err := measure(days)
		if err != nil {
			return nil, err
		}
		rates[days] = append(rates[days], got)
	}
	ms, err := t.latencies(ctx, sum.batches, 4000)
	if err != nil {
		return nil, err
	}
	r = sum.report(ms)
	r["jobs_per_s_by_days"] = rates
	r["ratio_35"], r["ratio"] = Round(Mean(rates[35])/Mean(rates[0]), 3), Round(Mean(rates[365])/Mean(rates[0]), 3)
	return r, nil
}

// oldDay returns a day of the history, counted from two days ago: newer days always exist.
func oldDay(n int) time.Time { return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -2-n) }

// oldRows copies an ended job and its result into a day.
const oldRows = `
WITH ended AS (
	SELECT j.*, row_number() OVER () AS n FROM jobs j WHERE j.state = 'finished' LIMIT %[2]d),
ids AS (
	SELECT id, (lpad(to_hex((extract(epoch FROM '%[1]s'::timestamp) * 1000)::bigint + n), 12, '0')
		|| substr(replace(id::text, '-', ''), 13))::uuid AS old FROM ended),
old_jobs AS (
	INSERT INTO jobs SELECT (jsonb_populate_record(j, jsonb_build_object('id', i.old, 'batch_id', i.old,
		'created_at', '%[1]s'::timestamp, 'ended_at', '%[1]s'::timestamp + interval '1 minute'))).* FROM ids i JOIN jobs j ON j.id = i.id)
INSERT INTO results SELECT (jsonb_populate_record(r, jsonb_build_object('id', i.old, 'batch_id', i.old,
	'recorded_at', '%[1]s'::timestamp + interval '1 minute'))).* FROM ids i JOIN results r ON r.id = i.id`

// parents are the tables with a partition for each day.
var parents = []string{"jobs", "specs", "attempts", "results"}

// addDays extends the history from one number of days to another.
func addDays(ctx context.Context, db databaseURL, from, to int) error {
	var script []string
	for n := from; n < to; n++ {
		day := oldDay(n).Format(time.DateOnly)
		for _, parent := range parents { // a few tables at a time, to limit the locks
			script = append(script, fmt.Sprintf(`SELECT assay_partition('%s', '%s')`, parent, day))
		}
		script = append(script, fmt.Sprintf(oldRows, day, historyRows))
	}
	return db.Run(ctx, script)
}

// dropDays removes the days of the history.
func dropDays(ctx context.Context, db databaseURL, days int) error {
	var script []string
	for n := range days {
		for _, parent := range parents {
			script = append(script, fmt.Sprintf(`DROP TABLE %s_%s`, parent, oldDay(n).Format("20060102")))
		}
	}
	return db.Run(ctx, script)
}
