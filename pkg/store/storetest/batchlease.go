package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// withLease submits a batch whose client must renew its lease.
func (f *fixture) withLease(ttl time.Duration, jobs ...store.NewJob) job.ID {
	f.Helper()
	b := newBatch()
	b.Lease = ttl
	id, err := f.SubmitBatch(f.Context(), b, jobs)
	f.must(err)
	return id
}

func testBatchLease(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	ctx := t.Context()
	f.reap() // from now on a dispatcher looks
	const short = 50 * time.Millisecond

	t.Run("abandoned", func(t *testing.T) {
		f := f.with(t)
		jobs := newJobs(4)
		id := f.withLease(short, jobs...)
		plain := f.submit(newJob("nobody has to wait for it"))
		c := f.claim(f.schedule(2)[0].Ref)[0]
		b := f.batch(id)
		if b.Lease.D() != short || b.LeaseUntil.IsZero() || b.Abandoned {
			t.Errorf("with a lease: %+v", b)
		}
		var st store.ReapStats
		f.eventually("the batch is abandoned", func() bool { st = f.reap(); return st.BatchesAbandoned == 1 })
		want := []store.Canceling{{LeaseRef: leaseOf(c), Worker: worker, State: job.Running}}
		if !cmp.Equal(st.Stopping, want) || st.JobsCanceled != 3 {
			t.Errorf("got %+v, want three canceled and %+v stopping", st, want)
		}
		if b := f.batch(id); !b.Abandoned || b.Counts[job.Canceled] != 3 || b.Counts[job.Running] != 1 || !b.LeaseUntil.IsZero() {
			t.Errorf("abandoned: %+v", b)
		}
		if _, canceled, err := f.Heartbeat(ctx, ttl, ours(leaseOf(c))); err != nil || len(canceled) != 1 {
			t.Errorf("the worker is told %v, %v", canceled, err)
		}
		_, err := f.KeepBatch(ctx, tenant, id)
		f.mustBe(err, job.ErrLost)
		f.finish(leaseOf(c), job.OutcomeCanceled)
		if b := f.batch(id); !b.Done() || !b.Abandoned {
			t.Errorf("in the end: %+v", b)
		}
		if b := f.batch(plain); b.Abandoned || b.Lease != 0 || b.Done() {
			t.Errorf("a batch without a lease: %+v", b)
		}
		if st := f.reap(); st.BatchesAbandoned != 0 || st.Stopping != nil {
			t.Errorf("sent again: %+v", st)
		}
	})
	t.Run("kept", func(t *testing.T) {
		f := f.with(t)
		id := f.withLease(time.Minute, newJobs(1)...)
		first := f.batch(id).LeaseUntil
		f.eventually("the lease is longer", func() bool {
			b, err := f.KeepBatch(ctx, tenant, id)
			f.must(err)
			return b.LeaseUntil.After(first)
		})
		kept, err := f.KeepBatches(ctx, tenant, []job.ID{id, f.submit(newJob("without a lease")), job.NewID()})
		f.must(err)
		if d := cmp.Diff(map[job.ID]time.Duration{id: time.Minute}, kept); d != "" {
			t.Errorf("kept (-want +got):\n%s", d)
		}
		if kept, err = f.KeepBatches(ctx, "umbrella", []job.ID{id}); err != nil || len(kept) > 0 {
			t.Errorf("another tenant's: %v, %v", kept, err)
		}
		_, err = f.KeepBatch(ctx, "umbrella", id)
		f.mustBe(err, job.ErrNotFound)
		_, err = f.KeepBatch(ctx, tenant, job.NewID())
		f.mustBe(err, job.ErrNotFound)
	})
	t.Run("done in time", func(t *testing.T) {
		f := f.with(t)
		id := f.withLease(time.Second, newJobs(1)...)
		f.finishAll(job.Succeeded)
		f.eventually("the lease would be over", func() bool { f.reap(); return time.Since(f.batch(id).CreatedAt) > 1500*time.Millisecond })
		if b, err := f.KeepBatch(ctx, tenant, id); err != nil || b.Abandoned || b.Outcomes[job.Succeeded] != 1 {
			t.Errorf("got %+v, %v", b, err)
		}
		// A retry belongs to another client: it has no lease.
		id = f.withLease(time.Minute, newJobs(1)...)
		f.finishAll(job.Failed)
		retry, err := f.RetryBatch(ctx, id, newBatch())
		f.must(err)
		if b, err := f.KeepBatch(ctx, tenant, retry); err != nil || b.Lease != 0 {
			t.Errorf("the retry: %+v, %v", b, err)
		}
	})
	t.Run("open", func(t *testing.T) {
		f := f.with(t)
		b := newBatch()
		b.Lease = short
		id, _, err := f.OpenBatch(ctx, b)
		f.must(err)
		f.must(f.AppendJobs(ctx, id, newJobs(1)))
		end := time.Now().Add(2 * short)
		f.eventually("the lease would be over", func() bool {
			if st := f.reap(); st.BatchesAbandoned != 0 {
				t.Errorf("abandoned before it was there: %+v", st)
			}
			return time.Now().After(end)
		})
		f.must(f.SealBatch(ctx, id, 1))
		f.eventually("the batch is abandoned", func() bool { return f.reap().BatchesAbandoned == 1 })
	})
}

// While no reaper ran, no renewal could arrive: the first look renews.
func testBatchLeaseAfterAnOutage(t *testing.T, open Open) {
	f := newFixture(t, open, Options{})
	id := f.withLease(time.Second, newJob("waits"))
	f.eventually("the lease would be over", func() bool { return time.Since(f.batch(id).CreatedAt) > 1200*time.Millisecond })
	if st := f.reap(); st.BatchesAbandoned != 0 || f.batch(id).Abandoned {
		t.Errorf("abandoned at the first look: %+v", st)
	}
	f.eventually("the batch is abandoned", func() bool { return f.reap().BatchesAbandoned == 1 })
}
