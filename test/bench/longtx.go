package main

import (
	"context"
	"fmt"
)

// longtxParts is the number of parts of the measurement beside the transaction. The rows that it
// protects from vacuum grow with each part.
const longtxParts = 4

// longtx measures the control plane alone (see noop) beside a transaction that reads the jobs once
// and stays open, as a dump does: before it, in some parts beside it, and after it. "ratio" is the
// rate beside it to the mean of the two without, "ratio_end" is the same for the last part.
func longtx(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, noopEnv)
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
	measure := func(what string) (float64, error) {
		b.logf("%s", what)
		o, err := t.batches(ctx, spec, b.n, b.duration/longtxParts, 2000)
		sum.add(o)
		return Rate(o.jobs, o.took), err
	}
	before, err := measure("without a transaction")
	if err != nil {
		return nil, err
	}
	tx, err := db.Open(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs; SELECT count(*) FROM batch_counts`)
	if err != nil {
		return nil, err
	}
	defer tx.Close() // no longer needed if something failed
	beside, all := make([]float64, longtxParts), 0.0
	for i := range beside {
		if beside[i], err = measure(fmt.Sprintf("beside one, part %d of %d", i+1, longtxParts)); err != nil {
			return nil, err
		}
		all += beside[i] / longtxParts
	}
	if err := tx.Close(); err != nil {
		return nil, err
	}
	after, err := measure("without one again")
	if err != nil {
		return nil, err
	}
	ms, err := t.latencies(ctx, sum.batches, 4000)
	if err != nil {
		return nil, err
	}
	r, without := sum.report(ms), (before+after)/2
	r["jobs_per_s_without"], r["jobs_per_s_beside"] = []float64{before, after}, beside
	r["ratio"], r["ratio_end"] = Round(all/without, 3), Round(beside[longtxParts-1]/without, 3)
	return r, nil
}
