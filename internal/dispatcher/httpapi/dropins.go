package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/dropin"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/intake"
	"github.com/assay-run/assay/pkg/job"
)

// dropIns returns the routes that are compatible with other servers. They are not operations of the API.
func (s *Server) dropIns(on []string) []web.Route {
	h := &dropin.Handlers{Jobs: dropInJobs{s}, Sessions: s.Sessions, Policies: s.Store, Ceiling: s.Admit.Ceiling, Files: s.files, Languages: s.Workers.Languages}
	return h.Routes(on)
}

// dropInJobs provides jobs to those routes.
type dropInJobs struct{ *Server }

// RunJob submits a job and waits for its result.
func (s dropInJobs) RunJob(r *http.Request, spec []byte, wait time.Duration) (id job.ID, raw json.RawMessage, err error) {
	_, raw, err = s.ran(r, wait, func(watch func(job.ID)) (api.Accepted, error) {
		a, err := s.Intake.Submit(r.Context(), intake.Job{Tenant: web.Tenant(r), Body: spec}, func(submitted job.ID) {
			id = submitted
			watch(submitted)
		})
		return api.Accepted{ID: a.ID, State: a.State}, err
	})
	return id, raw, err
}

// CancelJob cancels a job, even if its client is gone. If that fails, the job ends by its own limits.
func (s dropInJobs) CancelJob(r *http.Request, id job.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), cancelTime)
	defer cancel()
	c, err := s.Store.Cancel(ctx, id)
	if err != nil {
		s.Log.InfoContext(ctx, "abandoned job not canceled", "job", id, "error", err)
		return
	}
	s.stop(r, c)
}

// cancelTime limits the canceling of a job whose client gets no response.
const cancelTime = 10 * time.Second

// Load returns the number of the caller's queued jobs, and the number of workers.
func (s dropInJobs) Load(r *http.Request) (waiting int64, workers int, err error) {
	now, _, err := s.glance.Get(r.Context())
	if err != nil {
		return 0, 0, fmt.Errorf("look at the fleet: %w", err)
	}
	for _, g := range now.Queue {
		if g.Tenant == web.Tenant(r) {
			waiting += g.Queued
		}
	}
	return waiting, len(now.Workers), nil
}
