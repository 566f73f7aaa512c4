package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/admit"
	"github.com/assay-run/assay/internal/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// listJobs answers one page of a tenant's jobs.
func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) error {
	limit, err := web.Int(r, "limit", 100, 1, web.MaxPage)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	f, err := jobFilter(q)
	if err != nil {
		return err
	}
	var before job.ID
	if text := q.Get("before"); text != "" {
		if before, err = job.ParseID(text); err != nil {
			return job.Invalid("before", "%.40q is not the id of a job", text)
		}
	}
	var out api.JobList
	err = s.reads.Do(r.Context(), web.Tenant(r), func() (err error) {
		page, err := s.Store.BrowseJobs(r.Context(), web.Tenant(r), store.JobQuery{JobFilter: f, Before: before, Limit: int(limit)})
		out.Jobs, out.Next = page.Jobs, page.Next
		return err
	})
	if err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	if out.Jobs == nil {
		out.Jobs = []job.Summary{}
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// jobFilter reads which jobs are asked for.
func jobFilter(q url.Values) (f store.JobFilter, err error) {
	if text := q.Get("state"); text != "" {
		if f.State = job.State(text); !f.State.Valid() {
			return f, job.Invalid("state", "%.40q must be queued, dispatched, running, finished or canceled", text)
		}
	}
	if text := q.Get("outcome"); text != "" {
		switch f.Outcome = job.Outcome(text); {
		case !f.Outcome.Valid():
			return f, job.Invalid("outcome", "%.40q must be one of %s", text, strings.Trim(fmt.Sprint(job.Outcomes), "[]"))
		case f.State != "" && f.State != f.Outcome.State():
			return f, job.Invalid("outcome", "is asked for with state %s, and no job has both", f.State)
		}
	}
	if text := q.Get("batch"); text != "" {
		if f.Batch, err = job.ParseID(text); err != nil {
			return f, job.Invalid("batch", "%.40q is not the id of a batch", text)
		}
	}
	if text := q.Get("since"); text != "" {
		if f.Since, err = time.Parse(time.RFC3339, text); err != nil || f.Since.Year() < 1970 || f.Since.Year() > 9999 {
			return f, job.Invalid("since", "%.40q must be a time such as 2026-01-31T08:00:00Z", text)
		}
	}
	for _, text := range q["label"] {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return f, job.Invalid("label", "%.80q must be KEY=VALUE", text)
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		if was, ok := f.Labels[key]; ok && was != value {
			return f, job.Invalid("label", "%.80q is asked for with two values, and no job has both", key)
		}
		f.Labels[key] = value
	}
	var field *job.FieldError
	if err := admit.CheckBatch(store.NewBatch{Labels: f.Labels}); errors.As(err, &field) {
		return f, job.Invalid("label", "%s", field.Problem)
	}
	return f, nil
}
