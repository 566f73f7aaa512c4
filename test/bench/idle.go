package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/policy"
)

// idle measures the memory of warm slots: the proportional share (PSS) of every
// process that exists for them, shims included, by the slot.
func idle(ctx context.Context, b *bench) (r report, err error) {
	slots := b.n
	if slots == 0 {
		slots = 100
	}
	t, err := b.target(ctx, fmt.Sprintf("ASSAY_WARM=%d", slots))
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	isolation, note, err := t.isolation(ctx, policy.Cell)
	if err != nil {
		return nil, err
	}
	worker, err := t.child("worker")
	if err != nil {
		return nil, err
	}
	address, err := worker.env("ASSAY_CONTAINERD_ADDRESS")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := t.runBatch(ctx, pythonJob(isolation), 2*slots); err != nil { // asks for slots
		return nil, err
	}
	b.logf("waiting for the slots to be made and to settle")
	n, kb, err := settled(ctx, address)
	if err != nil {
		return nil, err
	}
	r = report{"slots": n, "seconds": round(time.Since(began).Seconds(), 3), "mb_per_slot": round(float64(kb)/1024/float64(n), 2)}
	r.noted(isolation, note)
	return r, nil
}

// settled waits until the number of shims has not changed for a while, and
// returns it with the memory of all of them and what they hold, in KiB.
func settled(ctx context.Context, address string) (n int, kb int64, err error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	same, last := 0, -1
	for range 120 {
		if n, kb, err = shims(address); err != nil {
			return 0, 0, err
		}
		if same++; n != last {
			same, last = 0, n
		}
		if same >= 5 && n > 0 {
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

// shims returns how many shims containerd at address has, and the memory of
// them and everything below them.
func shims(address string) (n int, kb int64, err error) {
	all, err := processes()
	if err != nil {
		return 0, 0, err
	}
	for _, p := range all {
		if i := slices.Index(p.args, "-address"); i < 0 || i+1 >= len(p.args) || p.args[i+1] != address {
			continue
		}
		n++
		for _, q := range below(all, p.pid) {
			if size, err := q.kilobytes("smaps_rollup", "Pss"); err == nil { // else it has just ended
				kb += size
			}
		}
	}
	return n, kb, nil
}
