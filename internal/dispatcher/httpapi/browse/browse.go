// Package browse serves the views of jobs and batches: lists with filters, summaries, maps and comparisons of batches.
package browse

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Handlers serves the routes. Create it with New.
type Handlers struct {
	Store Source
	Reads *share.Turns
	// OfBatch wraps a route about the batch {id}: restricted keys get 404 for batches without their label.
	OfBatch func(serve) serve

	summaries   *responseCache[*store.BatchSummary]
	comparisons *responseCache[*store.Comparison]
}

type serve = func(w http.ResponseWriter, r *http.Request) error

// ofBatch calls OfBatch at each request, because Routes may be called while OfBatch is nil.
func (h *Handlers) ofBatch(f serve) serve {
	return func(w http.ResponseWriter, r *http.Request) error { return h.OfBatch(f)(w, r) }
}

// Routes returns the routes in the order of the OpenAPI document.
func (h *Handlers) Routes() []web.Route {
	return []web.Route{
		web.At("GET /v1/jobs", identity.Reader, h.listJobs).Holding(web.Held),
		web.At("GET /v1/batches", identity.Reader, h.listBatches).Holding(web.Held),
		web.At("GET /v1/batches/states", identity.Reader, h.states).Holding(web.Policy),
		web.At("GET /v1/batches/{id}/jobs", identity.Reader, h.ofBatch(h.jobsOfBatch)).Holding(web.Held),
		web.At("GET /v1/batches/{id}/summary", identity.Reader, h.ofBatch(h.summary)).Holding(web.Held),
		web.At("GET /v1/batches/{id}/map", identity.Reader, h.ofBatch(h.batchMap)).Holding(web.Held),
		web.At("GET /v1/batches/{id}/compare/{other}", identity.Reader, h.compare).Holding(web.Policy),
	}
}

// The selectable fields of lists, and fields that are always included.
var (
	summaryFields = job.FieldNames(job.Summary{})
	batchFields   = job.FieldNames(job.Batch{})
	alwaysOfJob   = web.Fields{"id", "state", "created_at"}
	alwaysOfBatch = web.Fields{"id", "total", "counts", "outcomes", "created_at"}
)

// read calls f when it is the tenant's turn at the database.
func (h *Handlers) read(r *http.Request, f func() error) error {
	return h.Reads.Do(r.Context(), web.Tenant(r), f)
}

// before parses the cursor of a list.
func before(q url.Values, what string) (id job.ID, err error) {
	text := q.Get("before")
	if text == "" {
		return "", nil
	}
	if id, err = job.ParseID(text); err != nil {
		return "", job.Invalid("before", "%.40q is not the id of a %s", text, what)
	}
	return id, nil
}

func (h *Handlers) listJobs(w http.ResponseWriter, r *http.Request) error {
	f, err := Filter(r.URL.Query())
	if err != nil {
		return err
	}
	return h.jobs(w, r, f)
}

func (h *Handlers) jobsOfBatch(w http.ResponseWriter, r *http.Request) error {
	f, err := Filter(r.URL.Query())
	if err != nil {
		return err
	}
	if f.Batch, err = web.ID(r); err != nil {
		return err
	}
	return h.jobs(w, r, f)
}

// jobs responds with one page of jobs.
func (h *Handlers) jobs(w http.ResponseWriter, r *http.Request, f store.JobFilter) error {
	limit, err := web.Int(r, "limit", 100, 1, web.MaxPage)
	if err != nil {
		return err
	}
	if f.Labels, err = admit.HeldIn(r.Context()).Labels(f.Labels); err != nil {
		return err
	}
	q := store.JobQuery{JobFilter: f, Limit: int(limit)}
	if q.Before, err = before(r.URL.Query(), "job"); err != nil {
		return err
	}
	fields, err := web.ReadFields(r, summaryFields)
	if err != nil {
		return err
	}
	tenant, err := web.TenantAsked(r, "jobs")
	if err != nil {
		return err
	}
	var page store.JobPage
	if err := h.read(r, func() (err error) { page, err = h.Store.BrowseJobs(r.Context(), tenant, q); return err }); err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	return writeList(w, "jobs", page.Jobs, page.Next, fields, alwaysOfJob)
}

func (h *Handlers) listBatches(w http.ResponseWriter, r *http.Request) error {
	limit, err := web.Int(r, "limit", 50, 1, web.MaxPage)
	if err != nil {
		return err
	}
	q, err := batchQuery(r.URL.Query(), int(limit))
	if err != nil {
		return err
	}
	if q.Labels, err = admit.HeldIn(r.Context()).Labels(q.Labels); err != nil {
		return err
	}
	fields, err := web.ReadFields(r, batchFields)
	if err != nil {
		return err
	}
	tenant, err := web.TenantAsked(r, "batches")
	if err != nil {
		return err
	}
	var page store.BatchPage
	err = h.read(r, func() (err error) { page, err = h.Store.BrowseBatches(r.Context(), tenant, q); return err })
	if errors.Is(err, job.ErrNotFound) {
		return job.Invalid("before", "%s is not a batch of this list; leave it out to begin at the newest", q.Before)
	}
	if err != nil {
		return fmt.Errorf("list batches: %w", err)
	}
	return writeList(w, "batches", page.Batches, page.Next, fields, alwaysOfBatch)
}

func batchQuery(q url.Values, limit int) (b store.BatchQuery, err error) {
	b.Limit = limit
	if b.Before, err = before(q, "batch"); err != nil {
		return b, err
	}
	var f store.JobFilter
	if err := readTexts(q, &f); err != nil {
		return b, err
	}
	b.NamePrefix = f.NamePrefix
	if b.Labels, err = Labels(q); err != nil {
		return b, err
	}
	if b.Since, err = readTime(q, "since"); err != nil {
		return b, err
	}
	if q.Get("open") != "" {
		open, err := web.Bool(q, "open")
		if err != nil {
			return b, err
		}
		b.Open = &open
	}
	return b, nil
}

// writeList responds with a page. Its items have all fields, or the selected ones and those in always.
func writeList[T any](w http.ResponseWriter, name string, items []T, next job.ID, asked, always web.Fields) error {
	if asked != nil {
		asked = append(asked, always...)
	}
	list := make([]json.RawMessage, len(items))
	for i, item := range items {
		var err error
		if list[i], err = asked.Of(item); err != nil {
			return err
		}
	}
	out := map[string]any{name: list}
	if next != "" {
		out["next"] = next
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// states responds with the progress of several batches. It is cheap enough for polling.
func (h *Handlers) states(w http.ResponseWriter, r *http.Request) error {
	ids := r.URL.Query()["id"]
	if len(ids) == 0 || len(ids) > store.MaxStates {
		return job.Invalid("id", "is given %d times; name 1 to %d batches", len(ids), store.MaxStates)
	}
	batches := make([]job.ID, len(ids))
	for i, text := range ids {
		id, err := job.ParseID(text)
		if err != nil {
			return job.Invalid("id", "%.40q is not the id of a batch", text)
		}
		batches[i] = id
	}
	states, err := h.Store.BatchStates(r.Context(), web.Tenant(r), batches)
	if err != nil {
		return fmt.Errorf("read the states of batches: %w", err)
	}
	return web.WriteTaggedJSON(w, r, api.BatchStates{States: append([]store.BatchState{}, states...)})
}

func (h *Handlers) summary(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	found, err := h.summaryOf(r, id)
	if err != nil {
		return fmt.Errorf("summary of batch %s: %w", id, err)
	}
	return web.WriteTaggedJSON(w, r, found)
}

func (h *Handlers) batchMap(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	limit, err := web.Int(r, "limit", 10_000, 1, store.MaxMap)
	if err != nil {
		return err
	}
	after := job.ID("")
	if text := r.URL.Query().Get("after"); text != "" {
		if after, err = job.ParseID(text); err != nil {
			return job.Invalid("after", "%.40q is not the next of a part of a map", text)
		}
	}
	var m *store.BatchMap
	if err := h.read(r, func() (err error) {
		m, err = h.Store.BatchMap(r.Context(), web.Tenant(r), id, after, int(limit))
		return err
	}); err != nil {
		return fmt.Errorf("map of batch %s: %w", id, err)
	}
	n := len(m.Cells)
	out := api.BatchMap{IDs: make([]job.ID, n), Ends: make([]string, n), DurationMS: make([]int64, n), Next: m.Next}
	for i, c := range m.Cells {
		out.IDs[i], out.Ends[i], out.DurationMS[i] = c.ID, string(c.Outcome), c.DurationMS
		if c.Outcome == "" {
			out.Ends[i] = string(c.State)
		}
	}
	return web.WriteTaggedJSON(w, r, out)
}

func (h *Handlers) compare(w http.ResponseWriter, r *http.Request) error {
	a, err := web.ID(r)
	if err != nil {
		return err
	}
	b, err := job.ParseID(r.PathValue("other"))
	if err != nil {
		return err
	}
	from, err := web.Int(r, "from", 0, 0, store.MaxCompare)
	if err != nil {
		return err
	}
	limit, err := web.Int(r, "limit", 100, 1, web.MaxPage)
	if err != nil {
		return err
	}
	c, err := h.comparison(r, subject{web.Tenant(r), a, b, int(from), int(limit)})
	if err != nil {
		return fmt.Errorf("compare batches %s and %s: %w", a, b, err)
	}
	return web.WriteJSON(w, http.StatusOK, c)
}
