package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// BenchmarkRecorded measures the cost of a job from queued to recorded: scheduled, published, delivered, claimed,
// finished, acknowledged. Accepting the job is not counted, and running it takes no time.
func BenchmarkRecorded(b *testing.B) {
	for _, workers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			f := newFleet(b)
			var batches []job.ID
			for left := b.N; left > 0; left -= 10_000 {
				batch, _ := f.submit(min(left, 10_000))
				batches = append(batches, batch)
			}
			b.ResetTimer()
			d := f.start(dispatcher.Config{}, nil, nil)
			heard := make(chan struct{}, 1)
			for _, id := range batches {
				changed, stop := d.WatchBatch(id)
				defer stop()
				go func() {
					for {
						select {
						case <-changed:
						case <-b.Context().Done():
							return
						}
						select {
						case heard <- struct{}{}:
						default:
						}
					}
				}()
			}
			for i := range workers {
				defer f.swallow(fmt.Sprintf("w%d", i), 512/workers+1)()
			}
			d.Wake()
			for _, id := range batches {
				for !f.batch(id).Done() {
					select {
					case <-heard:
					case <-time.After(time.Second):
					}
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkSync measures one client that waits for one job after the other.
func BenchmarkSync(b *testing.B) {
	f := newFleet(b)
	d := f.start(dispatcher.Config{}, nil, nil)
	defer f.swallow("w1", 4)()
	b.ResetTimer()
	for range b.N {
		j := newJob()
		changed, stop := d.WatchJob(j.ID)
		_, dispatched, err := f.store.SubmitJob(b.Context(), j, store.Idempotency{}, 100)
		if err != nil || dispatched == nil {
			b.Fatalf("dispatch %v, error %v", dispatched, err)
		}
		if err := d.Dispatch(b.Context(), []store.Dispatch{*dispatched}); err != nil {
			b.Fatal(err)
		}
		select {
		case <-changed:
		case <-time.After(patient):
			b.Fatal("not recorded")
		}
		stop()
	}
}

// swallow is a worker that claims and finishes in bulk, and runs no program.
func (f *fleet) swallow(id string, slots int) (stop func()) {
	f.Helper()
	q := f.connect()
	deliveries, err := q.Consumer(f.Context(), placement.Any)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	var lanes sync.WaitGroup
	lanes.Go(func() {
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = insist(ctx, func() (control.HeartbeatReply, error) {
				return q.Heartbeat(ctx, control.HeartbeatRequest{Worker: control.WorkerInfo{ID: id, Pool: pool, Slots: slots, StartedAt: started}})
			})
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	const n = 2 // one lane fetches while the other's results are recorded
	for range n {
		lanes.Go(func() {
			out := make(chan queue.Message, slots)
			for ctx.Err() == nil {
				if err := f.swallowOnce(ctx, id, q, deliveries, max(slots/n, 1), out); err != nil && !errors.Is(err, job.ErrUnavailable) && ctx.Err() == nil {
					f.Error(err)
					return
				}
			}
		})
	}
	return func() { cancel(); lanes.Wait() }
}

func (f *fleet) swallowOnce(ctx context.Context, id string, q control.Client, deliveries queue.Consumer, n int, out chan queue.Message) error {
	fetchCtx, enough := context.WithCancel(ctx)
	defer enough()
	done := make(chan error, 1)
	go func() {
		_, err := deliveries.Fetch(fetchCtx, n, 5*time.Second, out)
		done <- err
	}()
	var ms []queue.Message
	select {
	case m := <-out:
		ms = append(ms, m)
	case err := <-done:
		return err
	}
	// Take the waiting messages; a fetch in progress is withdrawn.
	for len(out) > 0 {
		ms = append(ms, <-out)
	}
	enough()
	if err := <-done; err != nil {
		return err
	}
	for len(out) > 0 {
		ms = append(ms, <-out)
	}
	req := control.ClaimRequest{Worker: id}
	for _, m := range ms {
		req.Refs = append(req.Refs, m.Ref())
	}
	claim, err := q.Claim(ctx, req)
	if err != nil {
		return err
	}
	fin := control.FinishRequest{Worker: id}
	for _, c := range claim.Claimed {
		if c.Lease != 0 {
			fin.Finishes = append(fin.Finishes, store.Finish{LeaseRef: store.LeaseRef{Job: c.Job, Lease: c.Lease}, BatchID: c.BatchID,
				Outcome: job.Succeeded, Result: []byte(`{"outcome":"succeeded","stdout":{"text":"2\n","bytes":2}}`)})
		}
	}
	if len(fin.Finishes) > 0 {
		if _, err := q.Finish(ctx, fin); err != nil {
			return err
		}
	}
	for _, m := range ms {
		_ = m.Ack()
	}
	return nil
}
