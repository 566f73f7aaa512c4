package main

import (
	"context"
	"time"
)

const compatClients = 64 // clients that wait for an answer each, as a trainer's threads do

// The two questions. The second takes a third of a second of a core, of which the machine has a
// few. As many as fit into the worker's memory share the cores. They should all finish within the
// time of a request, else none does.
var (
	prints = askFusion("print(1+1)", "2\n", 10)
	works  = askFusion("import time\nwhile time.process_time() < 0.3: pass\nprint('done')", "done\n", 10)
)

// compat measures requests in the format of SandboxFusion from clients that wait for each answer,
// between two halves of batches of the same program. Then it measures four times as many clients,
// and finally as many with more work than fits into the time of their requests.
func compat(ctx context.Context, b *bench) (r Report, err error) {
	t, isolation, note, err := b.cellTarget(ctx, "ASSAY_DROP_INS=sandboxfusion")
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	var bare outcome
	var few, many, over fusionAnswers
	asked := func(into *fusionAnswers, q fusionQuestion, clients int, d time.Duration) func() error {
		return func() (err error) { *into, err = runFusion(ctx, t.url, q, clients, d); return err }
	}
	half := func() error {
		o, err := t.batches(ctx, pythonJob(isolation), 0, b.duration/2, 200)
		bare.jobs, bare.took = bare.jobs+o.jobs, bare.took+o.took
		return err
	}
	for _, part := range []func() error{
		asked(&few, prints, compatClients, time.Second), // warm-up
		half, asked(&few, prints, compatClients, b.duration), half,
		asked(&many, prints, 4*compatClients, b.duration), asked(&over, works, 4*compatClients, b.duration),
	} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	rate, bareRate := Rate(few.OK, few.Took), Rate(bare.jobs, bare.took)
	r = Report{
		"clients": compatClients, "jobs": few.OK, "seconds": Round(few.Took.Seconds(), 3), "jobs_per_s": rate,
		"python_per_s": bareRate, "ratio": Round(rate/bareRate, 3), "many_jobs_per_s": Rate(many.OK, many.Took),
		"p50_ms": Percentile(few.MS, 0.5), "p99_ms": Percentile(few.MS, 0.99), "overload_ok": over.OK, "overload_504": over.Late,
		"late": few.Late + many.Late, "wrong": few.Wrong + many.Wrong + over.Wrong, "other_answers": few.Other + many.Other + over.Other,
		"strange": few.Strange + many.Strange + over.Strange,
	}
	r.Noted(isolation, note)
	return r, nil
}
