package intake

import (
	"context"
	"fmt"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// Job is a client's single job.
type Job struct {
	Tenant      string
	Body        []byte // JSON of job.Spec
	Idempotency store.Idempotency
}

// Accepted is an accepted job.
type Accepted struct {
	ID       job.ID
	State    job.State // its state or an earlier one
	Replayed bool      // an earlier request with this key has created it
}

// Submit accepts one job: it validates and stores it, and sends it to a worker with room, in the
// same statement, or to the queue. It calls watch with the id before the job can end. If the job
// was submitted before, it calls watch again with the earlier id.
func (s *Service) Submit(ctx context.Context, r Job, watch func(job.ID)) (Accepted, error) {
	j, err := s.Admit.Job(ctx, r.Tenant, telemetry.TraceParent(ctx), r.Body)
	if err != nil {
		return Accepted{}, err
	}
	if _, err := s.roomForJobs(ctx, j.Tenant); err != nil {
		return Accepted{}, err
	}
	telemetry.Describe(ctx, telemetry.About{Job: j.ID, Pool: placement.PoolOf(j.Pool)})
	watch(j.ID)
	assigned := s.Dispatcher.Assign(&j)
	id, d, err := s.Store.SubmitJob(ctx, j, r.Idempotency, s.window(j.Pool), s.Fleet.Ahead(j.Pool)...)
	if assigned != nil {
		assigned(ctx, d, err)
	}
	switch {
	case err != nil:
		return Accepted{}, fmt.Errorf("submit job: %w", err)
	case id == j.ID:
		s.waiting.accepted(j.Tenant, 1, 0)
	case d == nil: // its progress is unknown
		watch(id)
	}
	return Accepted{ID: id, State: s.handOn(ctx, d, id == j.ID), Replayed: d == nil && id != j.ID}, nil
}

// window returns how many jobs of a class may be dispatched and not yet claimed, or 0 if no worker
// can claim them.
func (s *Service) window(class string) int {
	if class != placement.Any && s.Fleet.Lack(class) != "" {
		return 0
	}
	return s.Dispatcher.Window(class)
}

// handOn publishes a job that was stored as dispatched, or wakes the scheduler for a queued one. It
// returns the job's state. A job with a lease is already at its worker.
func (s *Service) handOn(ctx context.Context, d *store.Dispatch, fresh bool) job.State {
	switch {
	case d != nil && d.Lease != 0:
		return job.Running
	case d != nil:
		if err := s.Dispatcher.Dispatch(ctx, []store.Dispatch{*d}); err != nil {
			s.Log.WarnContext(ctx, "job accepted but not published; the reaper will publish it", "job", d.Job, "error", err)
		}
		return job.Dispatched
	case fresh:
		s.Dispatcher.Wake()
	}
	return job.Queued
}
