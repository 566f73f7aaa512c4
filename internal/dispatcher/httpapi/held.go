package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

// restrict returns ctx with the restrictions of the caller's key. The context ends when the caller's access ends.
func (s *Server) restrict(ctx context.Context, who identity.Identity) (context.Context, func()) {
	if who.Held != (identity.Held{}) {
		ctx = admit.WithHeld(ctx, admit.Held{Key: who.Held.Label.Key, Value: who.Held.Label.Value, Policy: who.Held.Policy})
	}
	if who.Life == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(who.Life, func() { cancel(context.Cause(who.Life)) })
	return ctx, func() { stop(); cancel(nil) }
}

// ofJob wraps a route about the job {id}. Keys restricted to a label get 404 for other jobs. A job without the label's
// key inherits the labels of its batch.
func (s *Server) ofJob(f serve) serve {
	return func(w http.ResponseWriter, r *http.Request) error {
		if l := web.Identity(r).Held.Label; l != (identity.Label{}) {
			id, err := web.ID(r)
			if err != nil {
				return err
			}
			j, err := s.Store.Job(r.Context(), web.Tenant(r), id)
			if err != nil {
				return fmt.Errorf("read job %s: %w", id, err)
			}
			has := j.Spec.Labels
			if _, own := has[l.Key]; !own && j.BatchID != "" {
				if has, err = s.batchLabels(r, j.BatchID); err != nil {
					return err
				}
			}
			if !hasLabel(has, l) {
				return web.NotFound("job %s with the label %.200q", id, l)
			}
		}
		return f(w, r)
	}
}

// ofBatch wraps a route about the batch {id}. Keys restricted to a label get 404 for other batches.
func (s *Server) ofBatch(f serve) serve {
	return func(w http.ResponseWriter, r *http.Request) error {
		if l := web.Identity(r).Held.Label; l != (identity.Label{}) {
			id, err := web.ID(r)
			if err != nil {
				return err
			}
			has, err := s.batchLabels(r, id)
			if err != nil {
				return err
			}
			if !hasLabel(has, l) {
				return web.NotFound("batch %s with the label %.200q", id, l)
			}
		}
		return f(w, r)
	}
}

func (s *Server) batchLabels(r *http.Request, id job.ID) (map[string]string, error) {
	b, err := s.Store.Batch(r.Context(), web.Tenant(r), id)
	if err != nil {
		return nil, fmt.Errorf("read batch %s: %w", id, err)
	}
	return b.Labels, nil
}

func hasLabel(labels map[string]string, l identity.Label) bool {
	v, ok := labels[l.Key]
	return ok && v == l.Value
}

// heldPolicy rejects a policy other than the only one of the caller's key.
func heldPolicy(r *http.Request, name string) error {
	if only := web.Identity(r).Held.Policy; only != "" && only != name {
		return fmt.Errorf("%w: this key is restricted to jobs with the policy %q", job.ErrRefused, only)
	}
	return nil
}
