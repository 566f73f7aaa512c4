package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// TestWakesSuffice checks that no job waits for the clock: jobs that were queued while the window was full, retried,
// or held back by a tenant's cap are scheduled as soon as possible.
func TestWakesSuffice(t *testing.T) {
	t.Parallel()
	cfg := quick
	cfg.ScheduleEvery, cfg.RepublishAfter, cfg.MinWindow = never, never, 2

	t.Run("window full", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		d := f.start(cfg, nil, nil)
		gate := make(chan struct{})
		w := f.work("w1", 1, func(ctx context.Context, _ store.Claimed) job.Outcome {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return job.Succeeded
		})
		f.submit(1)
		d.Wake()
		f.until("the worker is busy", func() bool { return w.total() == 1 })
		batch1, ids1 := f.submit(20)
		d.Wake()
		f.until("the window is full", func() bool { return f.batch(batch1).Counts[job.Dispatched] >= 2 })
		batch2, ids2 := f.submit(20)
		d.Wake() // this pass finds no room
		close(gate)
		f.recordedOnce(batch1, ids1)
		f.recordedOnce(batch2, ids2)
	})

	t.Run("retry", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		d := f.start(cfg, nil, nil)
		w := f.work("w1", 2, func(context.Context, store.Claimed) job.Outcome { return job.Failed })
		batch, ids := f.submit(3, func(j *store.NewJob) { j.MaxAttempts, j.RetryOn = 3, []job.Outcome{job.Failed} })
		d.Wake()
		f.recordedOnce(batch, ids)
		if w.total() != 9 {
			t.Errorf("%d runs, want 9", w.total())
		}
	})

	t.Run("tenant at its limit", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		if err := f.store.PutTenant(t.Context(), store.Tenant{Name: tenant, Weight: 1, MaxRunning: 2}); err != nil {
			t.Fatal(err)
		}
		d := f.start(cfg, nil, nil)
		f.work("w1", 8, succeed)
		batch, ids := f.submit(15)
		d.Wake()
		f.recordedOnce(batch, ids)
	})

	t.Run("worker arrives", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		d := f.start(cfg, nil, nil)
		batch, ids := f.submit(10)
		d.Wake()
		f.work("w1", 8, succeed)
		f.recordedOnce(batch, ids)
	})
}

// TestClockSuffices checks that jobs are scheduled without a wake-up, as after the death of the dispatcher that
// accepted them.
func TestClockSuffices(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start(quick, nil, nil)
	f.work("w1", 8, succeed)
	batch, ids := f.submit(30)
	f.recordedOnce(batch, ids)
}

// TestSinglesShareTheWindow checks that single jobs of a tenant do not bypass the window, so that a later batch of
// another tenant gets its turns.
func TestSinglesShareTheWindow(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	d := f.start(quick, nil, nil)
	begin := make(chan struct{})
	f.work("w1", 4, func(context.Context, store.Claimed) job.Outcome {
		<-begin
		time.Sleep(10 * time.Millisecond)
		return job.Succeeded
	})
	const singles = 400
	var flood []job.ID
	most := 0
	for range singles {
		j := newJob()
		j.Tenant = "greedy"
		window := d.Window(placement.Any)
		most = max(most, window)
		_, dispatched, err := f.store.SubmitJob(t.Context(), j, store.Idempotency{}, window)
		if err != nil {
			t.Fatal(err)
		}
		if flood = append(flood, j.ID); dispatched == nil {
			d.Wake()
		} else if err := d.Dispatch(t.Context(), []store.Dispatch{*dispatched}); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := f.store.Stats(t.Context())
	if err != nil || stats.Dispatched > int64(2*most) || stats.Queued < singles/2 {
		t.Errorf("%d dispatched and %d queued (%v) by one, where the window is at most %d", stats.Dispatched, stats.Queued, err, most)
	}
	batch, ids := f.submit(20)
	d.Wake()
	close(begin)
	f.recordedOnce(batch, ids)
	left := 0
	for _, id := range flood {
		j, err := f.store.Job(t.Context(), "greedy", id)
		if err != nil {
			t.Fatal(err)
		}
		if !j.State.Terminal() {
			left++
		}
	}
	if left < singles/2 {
		t.Errorf("the batch of another tenant ended when %d of %d jobs that came before it were left", left, singles)
	}
}

// TestLateBinding checks that next to no jobs are dispatched while all slots are taken, so that later jobs may still go
// first.
func TestLateBinding(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.MinWindow = 3
	d := f.start(cfg, nil, nil)
	release := make(chan struct{})
	w := f.work("w1", 20, func(ctx context.Context, _ store.Claimed) job.Outcome {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return job.Succeeded
	})
	batch, ids := f.submit(200)
	d.Wake()
	f.until("all slots are taken", func() bool { return w.total() == 20 })
	f.until("a heartbeat says so", func() bool {
		ws, err := f.store.Workers(t.Context(), 0)
		return err == nil && len(ws) == 1 && ws[0].Busy == 20
	})
	// Jobs that were dispatched while slots were free stay so. A later batch gets at most the least window.
	late, lateIDs := f.submit(50, func(j *store.NewJob) { j.Priority = 10 })
	d.Wake()
	for range 5 { // passes
		d.Wake()
		time.Sleep(cfg.ScheduleEvery / 4)
		if n := f.batch(late).Counts[job.Dispatched]; n > 3 {
			t.Fatalf("%d later jobs are dispatched ahead of taken slots", n)
		}
	}
	close(release)
	f.recordedOnce(batch, ids)
	f.recordedOnce(late, lateIDs)
}
