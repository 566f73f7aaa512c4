package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// The numbers of concurrent submits, and of batches in one request.
const (
	submitsAtOnce = 16
	statesAtOnce  = 1000 // the most of one request
)

// states measures the dispatcher's CPU use, in processors, for a request for the state of each of
// many batches every second. Half of the batches are not over. It also measures the cost of one GET
// of a batch.
func states(ctx context.Context, b *bench) (r Report, err error) {
	t, err := b.target(ctx, noopEnv)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	n := b.n
	if n == 0 {
		n = 10_000
	}
	b.logf("submitting %d batches", n)
	ids, err := t.submitMany(ctx, n/2)
	if err != nil {
		return nil, err
	}
	if err := t.allDone(ctx, ids); err != nil {
		return nil, err
	}
	if _, err := t.Admin().Pause(ctx, api.PauseRequest{Tenant: "default"}); err != nil {
		return nil, err
	}
	waiting, err := t.submitMany(ctx, n-n/2)
	if err != nil {
		return nil, err
	}
	ids = append(ids, waiting...)
	b.logf("asking about %d batches once a second", n)
	before, err := t.cpuNow()
	if err != nil {
		return nil, err
	}
	ms, took, err := t.askEach(ctx, ids, b.duration)
	if err != nil {
		return nil, err
	}
	after, err := t.cpuNow()
	if err != nil {
		return nil, err
	}
	r = outcome{jobs: n, took: took}.report(ms)
	delete(r, "jobs_per_s")
	r["batches"], r["requests"], r["states_per_s"] = n, len(ms), Rate(len(ms)*min(n, statesAtOnce), took)
	for _, part := range []string{"dispatcher", "postgres"} {
		r[part+"_processors"] = Round((after[part]-before[part]).Seconds()/took.Seconds(), 3)
	}
	return r, t.getEach(ctx, ids, b.duration/2, r)
}

// submitMany submits batches of one job each.
func (t *target) submitMany(ctx context.Context, n int) (ids []job.ID, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range submitsAtOnce {
		all.Go(func() {
			for k := i; k < n && ctx.Err() == nil; k += submitsAtOnce {
				body, bad := lines(pythonJob(policy.Task), 1)
				var b *job.Batch
				if bad == nil {
					b, bad = t.SubmitBatch(ctx, client.BatchOptions{}, bytes.NewReader(body))
				}
				mu.Lock()
				if bad == nil {
					ids = append(ids, b.ID)
				} else if err == nil {
					err = fmt.Errorf("submit batch: %w", bad)
				}
				mu.Unlock()
				if bad != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return ids, err
}

func (t *target) allDone(ctx context.Context, ids []job.ID) error {
	for part := range slices.Chunk(ids, statesAtOnce) {
		for left := len(part); left > 0; {
			states, err := t.BatchStates(ctx, part...)
			if err != nil {
				return err
			}
			left = len(part)
			for _, s := range states {
				if s.Done {
					left--
				}
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// askEach requests the state of each batch once a second, as many in one request as allowed.
func (t *target) askEach(ctx context.Context, ids []job.ID, d time.Duration) (ms []float64, took time.Duration, err error) {
	parts := slices.Collect(slices.Chunk(ids, statesAtOnce))
	began := time.Now()
	next := began
	for i := 0; time.Since(began) < d; i++ {
		time.Sleep(time.Until(next))
		sent, part := time.Now(), parts[i%len(parts)]
		states, err := t.BatchStates(ctx, part...)
		if err != nil {
			return nil, 0, err
		}
		if len(states) != len(part) {
			return nil, 0, fmt.Errorf("%d states of %d batches", len(states), len(part))
		}
		ms = append(ms, job.Milliseconds(time.Since(sent)))
		next = next.Add(time.Second / time.Duration(len(parts)))
	}
	return ms, time.Since(began), nil
}

// getEach requests one batch after the other, and adds the cost to r.
func (t *target) getEach(ctx context.Context, ids []job.ID, d time.Duration, r Report) error {
	before, err := t.cpuNow()
	if err != nil {
		return err
	}
	began, n := time.Now(), 0
	for ; time.Since(began) < d; n++ {
		if _, err := t.Batch(ctx, ids[n%len(ids)], 0); err != nil {
			return err
		}
	}
	after, err := t.cpuNow()
	if err != nil {
		return err
	}
	r["gets_per_s"] = Rate(n, time.Since(began))
	r["get_dispatcher_ms"] = after.perJob(before, n)["dispatcher"]
	return nil
}
