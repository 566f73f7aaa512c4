package postgres

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// TestUploadsExpireFromTheSeal checks that the waiting time of jobs begins at the seal, however long the
// upload takes. Until then nothing looks at them.
func TestUploadsExpireFromTheSeal(t *testing.T) {
	t.Parallel()
	r := newRefusing(t)
	ctx := t.Context()
	upload := func(n int) (id job.ID, jobs []job.ID) {
		id, _, err := r.OpenUpload(ctx, store.NewBatch{ID: job.NewID(), Tenant: "t"}, nil)
		r.must(err)
		var ns []store.NewJob
		for range n {
			j := store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: []byte(`{}`), ExpiresIn: 10 * time.Minute}
			ns, jobs = append(ns, j), append(jobs, j.ID)
		}
		fresh, err := r.AppendChunk(ctx, "t", id, store.Chunk{Digest: sha256.Sum256([]byte(id))}, ns)
		if r.must(err); !fresh {
			t.Fatal("the chunk is not taken")
		}
		// The chunk arrived an hour ago.
		r.exec(`UPDATE jobs SET created_at = created_at - interval '1 hour', expires_at = expires_at - interval '1 hour' WHERE batch_id = $1`, string(id))
		return id, jobs
	}
	left := func(batch job.ID) (least, most time.Duration) {
		var lo, hi float64
		r.must(r.db.Pool.QueryRow(ctx, `SELECT extract(epoch FROM min(expires_at) - now())::float8, extract(epoch FROM max(expires_at) - now())::float8 FROM jobs WHERE batch_id = $1`, string(batch)).Scan(&lo, &hi))
		return time.Duration(lo * float64(time.Second)), time.Duration(hi * float64(time.Second))
	}
	id, jobs := upload(3)
	if st := r.reap(); st.JobsExpired != 0 {
		t.Errorf("%d jobs expired before the seal", st.JobsExpired)
	}
	var overdue int
	r.must(r.db.Pool.QueryRow(ctx, `SELECT count(*) FROM jobs WHERE expires_at <= now()`).Scan(&overdue))
	if overdue != 0 {
		t.Errorf("%d jobs of an open upload stand before others that are overdue", overdue)
	}
	r.must(r.SealUpload(ctx, "t", id, -1))
	if lo, hi := left(id); lo < 9*time.Minute || hi > 10*time.Minute {
		t.Errorf("after the seal they have %v to %v, want 10m", lo, hi)
	}
	if st := r.reap(); st.JobsExpired != 0 {
		t.Errorf("%d jobs expired right after the seal", st.JobsExpired)
	}

	// A batch without successes may be retried, with the same time.
	r.exec(`UPDATE batches SET sealed_at = sealed_at - interval '20 minutes'`)
	r.exec(`UPDATE jobs SET expires_at = expires_at - interval '20 minutes'`)
	if st := r.reap(); st.JobsExpired != int64(len(jobs)) {
		t.Errorf("%d jobs expired, want %d", st.JobsExpired, len(jobs))
	}
	again, err := r.RetryBatch(ctx, id, store.NewBatch{ID: job.NewID(), Tenant: "t"})
	r.must(err)
	if _, hi := left(again); hi < 9*time.Minute || hi > 10*time.Minute {
		t.Errorf("in a retry they have %v, want 10m", hi)
	}
}

// TestLargeUploadIsRedatedByAndBy checks that the reaper completes the dates that the sealing call did not
// reach.
func TestLargeUploadIsRedatedByAndBy(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{cancelTime: 1}) // one statement each
	ctx := t.Context()
	b := store.NewBatch{ID: job.NewID(), Tenant: "t"}
	if _, _, err := s.OpenBatch(ctx, b); err != nil {
		t.Fatal(err)
	}
	const n = 12_000
	for range 2 {
		ns := make([]store.NewJob, n/2)
		for i := range ns {
			ns[i] = store.NewJob{ID: job.NewID(), Tenant: "t", Pool: "p", Spec: []byte(`{}`), ExpiresIn: time.Hour}
		}
		if err := s.AppendJobs(ctx, b.ID, ns); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SealBatch(ctx, b.ID, n); err != nil {
		t.Fatal(err)
	}
	for round, want := range []int{7_000, 2_000, 0, 0} {
		var left int
		if err := s.db.Pool.QueryRow(ctx, `SELECT count(*) FROM jobs WHERE expires_at > now() + interval '2 hours'`).Scan(&left); err != nil || left != want {
			t.Errorf("after round %d %d jobs are to be done, want %d (%v)", round, left, want, err)
		}
		if _, err := s.Reap(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var marked int
	if err := s.db.Pool.QueryRow(ctx, `SELECT count(*) FROM batches WHERE expiring`).Scan(&marked); err != nil || marked != 0 {
		t.Errorf("%d batches are still marked, %v", marked, err)
	}
}

// TestReapStepsEnd checks that a step of the reaper stops at its time limit, and that the other steps still
// run.
func TestReapStepsEnd(t *testing.T) {
	t.Parallel()
	r := &refusing{openTest(t, Config{cancelTime: 1}), t} // one statement each
	_, jobs := r.submit(1500)
	r.exec(`UPDATE jobs SET expires_at = now() - interval '1 second'`)
	if st, err := r.Reap(t.Context()); err != nil || st.JobsExpired != 500 {
		t.Errorf("%d jobs expired, want 500 (%v)", st.JobsExpired, err)
	}
	r.exec(`UPDATE jobs SET state = 'running', dispatch_gen = 1, lease = nextval('leases'), worker = 'w', started_at = now(), lease_until = now() - interval '1 second'
		WHERE state = 'queued'`)
	if st, err := r.ReapLeases(t.Context()); err != nil || st.LeasesExpired != 500 {
		t.Errorf("%d leases of %d jobs ended, want 500 (%v)", st.LeasesExpired, len(jobs), err)
	}
}
