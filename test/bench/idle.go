package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// idle measures the memory of warm slots, as many as a worker of this host keeps ready. It sums the
// proportional share (PSS) of all their processes, including shims, and divides it by the number of
// slots.
func idle(ctx context.Context, b *bench) (r Report, err error) {
	slots := b.n
	if slots == 0 {
		slots = 100
	}
	t, isolation, note, err := b.cellTarget(ctx,
		fmt.Sprintf("ASSAY_SLOTS=%d", slots), fmt.Sprintf("ASSAY_CPU=%d", slots), "ASSAY_WARM_MEMORY=64Gi", "ASSAY_MEMORY=64Gi")
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	worker, err := t.child("worker")
	if err != nil {
		return nil, err
	}
	address, err := worker.Env("ASSAY_CONTAINERD_ADDRESS")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := t.runBatch(ctx, sleepingJob(isolation), slots); err != nil { // all at once, so that many slots are needed
		return nil, err
	}
	b.logf("waiting for the slots to be made and to settle")
	n, kb, err := settled(ctx, address)
	if err != nil {
		return nil, err
	}
	r = Report{"slots": n, "seconds": Round(time.Since(began).Seconds(), 3), "mb_per_slot": Round(float64(kb)/1024/float64(n), 2)}
	r.Noted(isolation, note)
	return r, nil
}

// sleepingJob returns a job that keeps its slot until all jobs have one.
func sleepingJob(isolation policy.Isolation) job.Spec {
	return job.Spec{
		Image: "python", Policy: json.RawMessage(fmt.Sprintf(`{"isolation":%q,"cpu":0.1,"memory":"64Mi"}`, isolation)),
		Program: job.Program{Python: &job.Python{Code: "import time; time.sleep(3)"}},
	}
}

// settled waits until the number of slots has not changed for a while. It returns the number, and
// the memory of all of their processes, in KiB.
func settled(ctx context.Context, address string) (n int, kb int64, err error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	same, last := 0, -1
	for range 120 {
		if n, kb, err = standing(address); err != nil {
			return 0, 0, err
		}
		if same++; n != last {
			same, last = 0, n
		}
		if same >= 4 && n > 0 {
			return n, kb, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
	}
	return 0, 0, errors.New("the slots did not settle within two minutes")
}

// standing returns how many slots stand below the shims of containerd at address, and the memory of
// all their processes. A slot is a process 1 in an innermost pid namespace: a box of a cell, or a
// container.
func standing(address string) (n int, kb int64, err error) {
	all, err := readProcesses()
	if err != nil {
		return 0, 0, err
	}
	depth := 0
	for _, p := range all {
		if i := slices.Index(p.Args, "-address"); i < 0 || i+1 >= len(p.Args) || p.Args[i+1] != address {
			continue
		}
		for _, q := range descendants(all, p.PID) {
			if size, err := q.Kilobytes("smaps_rollup", "Pss"); err == nil { // otherwise it has just ended
				kb += size
			}
			switch level, first := q.Namespaces(); {
			case !first || level < depth:
			case level > depth:
				depth, n = level, 1
			default:
				n++
			}
		}
	}
	return n, kb, nil
}
