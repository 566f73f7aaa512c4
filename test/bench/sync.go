package main

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// synchronous measures one client that submits a job only after the previous one has ended, as an
// agent does.
func synchronous(ctx context.Context, b *bench) (r Report, err error) {
	t, isolation, note, err := b.cellTarget(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	spec := pythonJob(isolation)
	for range 10 { // warm-up
		if _, err := t.Run(ctx, spec); err != nil {
			return nil, err
		}
	}
	b.logf("measuring")
	var o outcome
	var ms []float64
	stages := map[string][]float64{}
	began := time.Now()
	for more(b, o.jobs, began) {
		sent := time.Now()
		res, err := t.Run(ctx, spec)
		if err != nil {
			return nil, fmt.Errorf("run: %w", err)
		}
		took := job.Milliseconds(time.Since(sent))
		ms = append(ms, took)
		at := res.Timings
		told := at.QueuedMS + at.SlotMS + at.FetchMS + at.RunMS + at.CollectMS + at.RecordMS
		for name, v := range map[string]float64{
			"queued": at.QueuedMS, "slot": at.SlotMS, "fetch": at.FetchMS, "run": at.RunMS, "collect": at.CollectMS, "record": at.RecordMS, "api": took - told,
		} {
			stages[name] = append(stages[name], v)
		}
		o.jobs++
		if res.Outcome != job.Succeeded {
			o.errors++
		}
	}
	o.took = time.Since(began)
	r = o.report(ms)
	r.Noted(isolation, note)
	medians := map[string]float64{}
	for name, all := range stages {
		medians[name] = Percentile(all, 0.5)
	}
	r["stages_p50_ms"] = medians // time by stage, from the records; api: before acceptance and after the record
	return r, nil
}

// more reports whether to go on: until n jobs if n is not 0, else for the duration.
func more(b *bench, done int, began time.Time) bool {
	if b.n > 0 {
		return done < b.n
	}
	return time.Since(began) < b.duration
}
