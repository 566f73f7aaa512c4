package intake

import (
	"context"
	"fmt"

	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// Job is one job as a client sent it.
type Job struct {
	Tenant      string
	Body        []byte // JSON of job.Spec
	Idempotency store.Idempotency
}

// Accepted is a job that was taken in.
type Accepted struct {
	ID       job.ID
	State    job.State // how far it is at least
	Replayed bool      // an earlier request with this key has made it
}

// Submit takes one job in: it is admitted, stored and handed on, in one statement to a worker
// with room if there is one, or else to the queue. watch is called with the id before the job
// can end; once more, with another id, if the job was submitted before.
func (s *Service) Submit(ctx context.Context, r Job, watch func(job.ID)) (Accepted, error) {
	j, err := s.Admit.Job(ctx, r.Tenant, telemetry.TraceParent(ctx), r.Body)
	if err != nil {
		return Accepted{}, err
	}
	if _, _, err := s.roomForJobs(ctx, j.Tenant); err != nil {
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
	case d == nil: // who knows how far it is
		watch(id)
	}
	return Accepted{ID: id, State: s.handOn(ctx, d, id == j.ID), Replayed: d == nil && id != j.ID}, nil
}

// window is how many jobs of a class may be dispatched and not claimed; 0 where nobody could
// claim them.
func (s *Service) window(class string) int {
	if class != placement.Any && s.Fleet.Lack(class) != "" {
		return 0
	}
	return s.Dispatcher.Window(class)
}

// handOn publishes a job that was dispatched as it was stored, or has the scheduler look at
// one that is queued, and returns the job's state. One with a lease is at its worker already.
func (s *Service) handOn(ctx context.Context, d *store.Dispatch, fresh bool) job.State {
	switch {
	case d != nil && d.Lease != 0:
		return job.Running
	case d != nil:
		if err := s.Dispatcher.Dispatch(ctx, []store.Dispatch{*d}); err != nil {
			s.Log.WarnContext(ctx, "job accepted, publishing put off", "job", d.Job, "error", err)
		}
		return job.Dispatched
	case fresh:
		s.Dispatcher.Wake()
	}
	return job.Queued
}
