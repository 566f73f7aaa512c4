package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/intake"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// maxRun is the default ?wait= of POST /v1/run.
const maxRun = web.MaxWait

// accept reads one job and submits it.
func (s *Server) accept(w http.ResponseWriter, r *http.Request, watch func(job.ID)) (api.Accepted, error) {
	if err := web.WantJSON(r); err != nil {
		return api.Accepted{}, err
	}
	body, err := web.ReadBody(w, r, web.MaxBody)
	if err != nil {
		return api.Accepted{}, err
	}
	key, err := web.Idempotency(r, body)
	if err != nil {
		return api.Accepted{}, err
	}
	return s.submit(w, r, body, key, watch)
}

// submit submits one job and sets the Location header.
func (s *Server) submit(w http.ResponseWriter, r *http.Request, body []byte, key store.Idempotency, watch func(job.ID)) (api.Accepted, error) {
	a, err := s.Intake.Submit(r.Context(), intake.Job{Tenant: web.Tenant(r), Body: body, Idempotency: key}, watch)
	if err != nil {
		return api.Accepted{}, err
	}
	if a.Replayed {
		w.Header().Set(api.HeaderReplayed, "true")
	}
	url := "/v1/jobs/" + string(a.ID)
	w.Header().Set("Location", url)
	return api.Accepted{ID: a.ID, State: a.State, URL: url}, nil
}

func (s *Server) submitJob(w http.ResponseWriter, r *http.Request) error {
	a, err := s.accept(w, r, func(job.ID) {})
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusCreated, a)
}

// run submits a job and waits for it: 200 with the result, or 202 with the job if it takes longer than ?wait=.
func (s *Server) run(w http.ResponseWriter, r *http.Request) error {
	wait, err := web.Wait(r, maxRun)
	if err != nil {
		return err
	}
	v, err := parseFields(r, resultFields)
	if err != nil {
		return err
	}
	a, raw, err := s.ran(r, wait, func(watch func(job.ID)) (api.Accepted, error) { return s.accept(w, r, watch) })
	if err != nil {
		return err
	}
	if raw == nil {
		return web.WriteJSON(w, http.StatusAccepted, a)
	}
	if raw, err = v.result(raw); err != nil {
		return err
	}
	return web.WriteRaw(w, http.StatusOK, raw)
}

// ran submits one job and returns its result, or nil if there is none within wait.
func (s *Server) ran(r *http.Request, wait time.Duration, submit func(watch func(job.ID)) (api.Accepted, error)) (api.Accepted, json.RawMessage, error) {
	var changed <-chan struct{}
	var record func() json.RawMessage
	stop := func() {}
	defer func() { stop() }()
	a, err := submit(func(id job.ID) {
		stop()
		changed, record, stop = s.Watcher.WatchRecord(id)
	})
	if err != nil {
		return a, nil, err
	}
	if a.State != job.Queued { // a new job has no result yet
		web.Sleep(r.Context(), min(wait, web.Recheck), changed)
		if raw := record(); raw != nil {
			return a, raw, nil
		}
	}
	raw, err := s.awaitResult(r, a.ID, wait, changed)
	return a, raw, err
}

// awaitResult returns the result of an existing job, or nil if there is none within wait.
func (s *Server) awaitResult(r *http.Request, id job.ID, wait time.Duration, changed <-chan struct{}) (json.RawMessage, error) {
	var raw json.RawMessage
	_, err := web.Poll(r.Context(), wait, changed, func() (bool, error) {
		got, err := s.Store.Result(r.Context(), web.Tenant(r), id)
		if errors.Is(err, job.ErrNotFound) {
			return false, nil
		}
		raw = got
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	return raw, nil
}

func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	wait, err := web.Wait(r, 0)
	if err != nil {
		return err
	}
	v, err := parseFields(r, jobFields)
	if err != nil {
		return err
	}
	j, err := s.awaitJob(r, id, wait)
	if err != nil {
		return err
	}
	raw, err := v.job(j)
	if err != nil {
		return err
	}
	return web.WriteTagged(w, r, raw)
}

// awaitJob returns the job when it is in a terminal state or wait has passed.
func (s *Server) awaitJob(r *http.Request, id job.ID, wait time.Duration) (*job.Job, error) {
	var changed <-chan struct{}
	if wait > 0 {
		c, stop := s.Watcher.WatchJob(id)
		defer stop()
		changed = c
	}
	var j *job.Job
	_, err := web.Poll(r.Context(), wait, changed, func() (done bool, err error) {
		j, err = s.Store.Job(r.Context(), web.Tenant(r), id)
		return err == nil && j.State.Terminal(), err
	})
	if err != nil {
		return nil, fmt.Errorf("read job %s: %w", id, err)
	}
	if j.State == job.Queued || j.State == job.Dispatched {
		wait, why := s.waiting.of(r.Context(), queuedJob{tenant: j.Tenant, batch: j.BatchID, class: j.Pool, dispatched: j.State == job.Dispatched})
		if j.Message == "" || wait == j.WaitsFor { // the record may have a newer pause, but not its author
			j.WaitsFor, j.Message = wait, why
		}
	}
	return j, nil
}

func (s *Server) getResult(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	wait, err := web.Wait(r, 0)
	if err != nil {
		return err
	}
	v, err := parseFields(r, resultFields)
	if err != nil {
		return err
	}
	// Read the job first: there is no point in waiting for an unknown job.
	j, err := s.Store.Job(r.Context(), web.Tenant(r), id)
	if err != nil {
		return fmt.Errorf("read job %s: %w", id, err)
	}
	changed, stop := s.Watcher.WatchJob(id)
	defer stop()
	raw, err := s.awaitResult(r, id, wait, changed)
	if err != nil {
		return err
	}
	if raw == nil {
		return web.NotFound("job %s is %s: it has no result yet; wait for it with ?wait=30s", id, j.State)
	}
	return v.writeResult(w, r, raw)
}

func (s *Server) cancelJob(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	if _, err := s.Store.Job(r.Context(), web.Tenant(r), id); err != nil {
		return fmt.Errorf("read job %s: %w", id, err) // 404 for another tenant's job
	}
	c, err := s.Store.Cancel(r.Context(), id)
	if err != nil {
		return fmt.Errorf("cancel job %s: %w", id, err)
	}
	s.stop(r, c)
	return web.WriteJSON(w, http.StatusOK, api.Accepted{ID: id, State: c.State, URL: "/v1/jobs/" + string(id)})
}

// cancelJobs cancels the jobs that match a request. It rejects an empty request, which would match all.
func (s *Server) cancelJobs(w http.ResponseWriter, r *http.Request) error {
	var req api.CancelRequest
	if err := web.ReadJSON(w, r, web.MaxBody, &req); err != nil {
		return err
	}
	if err := checkCancel(req); err != nil {
		return err
	}
	labels, err := admit.HeldIn(r.Context()).Labels(req.Labels)
	if err != nil {
		return err
	}
	req.Labels = labels
	q := store.CancelQuery{Labels: req.Labels, Batch: req.Batch, State: req.State, DryRun: req.DryRun}
	report, told := api.CancelReport{DryRun: req.DryRun}, map[store.LeaseRef]bool{}
	for more := true; more; {
		var c store.Canceled
		err := s.reads.Do(r.Context(), web.Tenant(r), func() (err error) {
			c, err = s.Store.CancelMany(r.Context(), web.Tenant(r), q)
			return err
		})
		if !req.DryRun {
			s.stop(r, c.Running...) // also those found before an error
		}
		if err != nil {
			return fmt.Errorf("cancel many jobs: %w", err)
		}
		for _, l := range c.Running {
			told[l.LeaseRef] = true
		}
		report.Canceled += c.Ended
		more = c.More
	}
	report.Stopping = int64(len(told))
	if !req.DryRun {
		s.noted(r, "cancel many", requestText(req), report)
	}
	return web.WriteJSON(w, http.StatusOK, report)
}

// prioritizeJobs sets the priority of the queued jobs that match a request.
func (s *Server) prioritizeJobs(w http.ResponseWriter, r *http.Request) error {
	var req api.PriorityRequest
	if err := web.ReadJSON(w, r, web.MaxBody, &req); err != nil {
		return err
	}
	switch {
	case len(req.Labels) == 0 && req.Batch == "":
		return job.Invalid("labels", "name at least one label that the jobs have, such as {\"run\": \"7\"}, or their batch")
	case req.Priority == nil:
		return job.Invalid("priority", "is missing: %d to %d", -job.MaxPriority, job.MaxPriority)
	case *req.Priority < -job.MaxPriority || *req.Priority > job.MaxPriority:
		return job.Invalid("priority", "must be %d to %d, not %d", -job.MaxPriority, job.MaxPriority, *req.Priority)
	}
	if err := checkMany(req.Labels, req.Batch); err != nil {
		return err
	}
	labels, err := admit.HeldIn(r.Context()).Labels(req.Labels)
	if err != nil {
		return err
	}
	req.Labels = labels
	report := api.PriorityReport{DryRun: req.DryRun}
	err = s.reads.Do(r.Context(), web.Tenant(r), func() (err error) {
		report.Changed, err = s.Store.Prioritize(r.Context(), web.Tenant(r),
			store.PriorityQuery{Labels: req.Labels, Batch: req.Batch, Priority: *req.Priority, DryRun: req.DryRun})
		return err
	})
	if err != nil {
		return fmt.Errorf("prioritize jobs: %w", err)
	}
	if !req.DryRun {
		s.noted(r, "prioritize many", requestText(req), report)
	}
	return web.WriteJSON(w, http.StatusOK, report)
}

// requestText returns the request as text for the audit log.
func requestText(req any) string {
	raw, _ := json.Marshal(req) // req always marshals
	return job.Clip(string(raw), 500)
}

func checkCancel(req api.CancelRequest) error {
	if len(req.Labels) == 0 && req.Batch == "" && req.State == "" {
		return job.Invalid("labels", "name at least one label that the jobs have, such as {\"run\": \"7\"}, or their batch or state")
	}
	if req.State != "" && (!req.State.Valid() || req.State.Terminal()) {
		return job.Invalid("state", "%.40q must be queued, dispatched or running", req.State)
	}
	return checkMany(req.Labels, req.Batch)
}

// checkMany validates the labels and the batch of a bulk request.
func checkMany(labels map[string]string, batch job.ID) error {
	if _, err := job.ParseID(string(batch)); batch != "" && err != nil {
		return job.Invalid("batch", "%.40q is not the id of a batch", batch)
	}
	return admit.CheckBatch(store.NewBatch{Labels: labels})
}

// stop sends a cancel to the workers of running jobs. If a message is lost, the response to the worker's next heartbeat
// repeats it.
func (s *Server) stop(r *http.Request, cs ...store.Canceling) {
	for _, c := range cs {
		if c.State != job.Running {
			continue
		}
		if err := s.Canceler.SendCancel(c.Worker, c.LeaseRef); err != nil {
			s.Log.WarnContext(r.Context(), "cancel not sent; the worker's heartbeat will deliver it", "job", c.Job, "worker", c.Worker, "error", err)
		}
	}
}
