package fault

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Store is a store with random failures.
type Store struct {
	store.Store
	In *Injector
}

// The methods that every job uses; the others do not fail.

func (s *Store) SubmitBatch(ctx context.Context, b store.NewBatch, jobs []store.NewJob) (job.ID, error) {
	return get(s.In, "submit batch", func() (job.ID, error) { return s.Store.SubmitBatch(ctx, b, jobs) })
}

func (s *Store) SubmitJob(ctx context.Context, j store.NewJob, key store.Idempotency, window int, rivals ...string) (id job.ID, d *store.Dispatch, err error) {
	err = s.In.do("submit job", func() error {
		id, d, err = s.Store.SubmitJob(ctx, j, key, window, rivals...)
		return err
	})
	return id, d, err
}

func (s *Store) OpenBatch(ctx context.Context, b store.NewBatch) (id job.ID, existed bool, err error) {
	err = s.In.do("open batch", func() error {
		id, existed, err = s.Store.OpenBatch(ctx, b)
		return err
	})
	return id, existed, err
}

func (s *Store) SealBatch(ctx context.Context, batch job.ID, total int64) error {
	return s.In.do("seal batch", func() error { return s.Store.SealBatch(ctx, batch, total) })
}

func (s *Store) Schedule(ctx context.Context, classes []string, window int) ([]store.Dispatch, error) {
	return get(s.In, "schedule", func() ([]store.Dispatch, error) { return s.Store.Schedule(ctx, classes, window) })
}

func (s *Store) Unclaimed(ctx context.Context, olderThan time.Duration, n int) ([]store.Dispatch, error) {
	return get(s.In, "unclaimed", func() ([]store.Dispatch, error) { return s.Store.Unclaimed(ctx, olderThan, n) })
}

func (s *Store) Cancel(ctx context.Context, id job.ID) (store.Canceling, error) {
	return get(s.In, "cancel", func() (store.Canceling, error) { return s.Store.Cancel(ctx, id) })
}

func (s *Store) CancelBatch(ctx context.Context, batch job.ID) ([]store.Canceling, error) {
	return get(s.In, "cancel batch", func() ([]store.Canceling, error) { return s.Store.CancelBatch(ctx, batch) })
}

func (s *Store) ReapLeases(ctx context.Context) (store.ReapStats, error) {
	return get(s.In, "reap leases", func() (store.ReapStats, error) { return s.Store.ReapLeases(ctx) })
}

func (s *Store) Reap(ctx context.Context) (store.ReapStats, error) {
	return get(s.In, "reap", func() (store.ReapStats, error) { return s.Store.Reap(ctx) })
}

func (s *Store) Orphans(ctx context.Context, leases []store.LeaseRef) ([]store.LeaseRef, error) {
	return get(s.In, "orphans", func() ([]store.LeaseRef, error) { return s.Store.Orphans(ctx, leases) })
}

func (s *Store) Inputs(ctx context.Context, before time.Time) ([]store.Input, error) {
	return get(s.In, "inputs", func() ([]store.Input, error) { return s.Store.Inputs(ctx, before) })
}

func (s *Store) Claim(ctx context.Context, ttl time.Duration, claims []store.Claim) ([]store.Claimed, error) {
	return get(s.In, "claim", func() ([]store.Claimed, error) { return s.Store.Claim(ctx, ttl, claims) })
}

func (s *Store) Heartbeat(ctx context.Context, ttl time.Duration, leases []store.Held) (lost, canceled []store.Held, err error) {
	err = s.In.do("heartbeat", func() error {
		lost, canceled, err = s.Store.Heartbeat(ctx, ttl, leases)
		return err
	})
	return lost, canceled, err
}

func (s *Store) Finish(ctx context.Context, fs []store.Finish) ([]store.FinishStatus, error) {
	return get(s.In, "finish", func() ([]store.FinishStatus, error) { return s.Store.Finish(ctx, fs) })
}

func (s *Store) Release(ctx context.Context, rs []store.Release) error {
	return s.In.do("release", func() error { return s.Store.Release(ctx, rs) })
}

func (s *Store) RevokeAssignment(ctx context.Context, l store.LeaseRef) (bool, error) {
	return get(s.In, "revoke assignment", func() (bool, error) { return s.Store.RevokeAssignment(ctx, l) })
}

func (s *Store) Job(ctx context.Context, tenant string, id job.ID) (*job.Job, error) {
	return get(s.In, "job", func() (*job.Job, error) { return s.Store.Job(ctx, tenant, id) })
}

func (s *Store) Result(ctx context.Context, tenant string, id job.ID) (json.RawMessage, error) {
	return get(s.In, "result", func() (json.RawMessage, error) { return s.Store.Result(ctx, tenant, id) })
}

func (s *Store) Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error) {
	return get(s.In, "batch", func() (*job.Batch, error) { return s.Store.Batch(ctx, tenant, id) })
}

func (s *Store) Progress(ctx context.Context, batches []job.ID) ([]store.Progress, error) {
	return get(s.In, "progress", func() ([]store.Progress, error) { return s.Store.Progress(ctx, batches) })
}

func (s *Store) BatchesByID(ctx context.Context, batches []job.ID) ([]job.Batch, error) {
	return get(s.In, "batches by id", func() ([]job.Batch, error) { return s.Store.BatchesByID(ctx, batches) })
}

func (s *Store) BatchDone(ctx context.Context, tenant string, id job.ID) (bool, error) {
	return get(s.In, "batch done", func() (bool, error) { return s.Store.BatchDone(ctx, tenant, id) })
}
