package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// query returns the filter as parameters of the API.
func (f JobFilter) query() url.Values {
	q := url.Values{"limit": {"200"}}
	for name, text := range map[string]string{"tenant": f.Tenant, "state": string(f.State), "outcome": string(f.Outcome), "failure": string(f.Failure), "batch": string(f.Batch), "name": f.Name,
		"name_prefix": f.NamePrefix, "image": f.Image, "worker": f.Worker, "message": f.Text} {
		if text != "" {
			q.Set(name, text)
		}
	}
	for k, v := range f.Labels {
		q.Add("label", k+"="+v)
	}
	for name, t := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, d := range map[string]time.Duration{"min_duration": f.MinDuration, "max_duration": f.MaxDuration} {
		if d > 0 {
			q.Set(name, d.String())
		}
	}
	if f.Failed {
		q.Set("failed", "true")
	}
	return q
}

// BatchSummary returns the progress of a batch and the common properties of its failed jobs.
func (c *Client) BatchSummary(ctx context.Context, id job.ID) (*fleet.BatchSummary, error) {
	var out fleet.BatchSummary
	_, err := c.json(ctx, get(batchPath(id)+"/summary", nil), &out)
	return &out, err
}

// BatchMap returns up to limit jobs of a batch in the order of submission. It starts after the job
// after, which is Next of the previous part.
func (c *Client) BatchMap(ctx context.Context, id, after job.ID, limit int) (api.BatchMap, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if after != "" {
		q.Set("after", string(after))
	}
	var out api.BatchMap
	_, err := c.json(ctx, get(batchPath(id)+"/map", q), &out)
	return out, err
}

// CompareBatches returns the differences between two batches. It lists up to limit jobs with
// changed results, starting at from.
func (c *Client) CompareBatches(ctx context.Context, a, b job.ID, from, limit int) (*fleet.Comparison, error) {
	var out fleet.Comparison
	q := url.Values{"from": {strconv.Itoa(from)}, "limit": {strconv.Itoa(limit)}}
	_, err := c.json(ctx, get(batchPath(a)+"/compare/"+string(b), q), &out)
	return &out, err
}

// BatchStates returns the progress of up to 1000 batches. It is cheaper to poll than Batch.
func (c *Client) BatchStates(ctx context.Context, ids ...job.ID) ([]fleet.BatchState, error) {
	q := url.Values{}
	for _, id := range ids {
		q.Add("id", string(id))
	}
	var out api.BatchStates
	_, err := c.json(ctx, get("/v1/batches/states", q), &out)
	return out.States, err
}

// CancelMany requests the end of every active job that matches the whole request, or counts them.
func (c *Client) CancelMany(ctx context.Context, q api.CancelRequest) (api.CancelReport, error) {
	var out api.CancelReport
	rq, err := post("/v1/jobs/cancel", nil, q)
	if err != nil {
		return out, err
	}
	_, err = c.json(ctx, rq, &out)
	return out, err
}

// Prioritize changes the priority of queued jobs that match the whole request, or counts them.
func (c *Client) Prioritize(ctx context.Context, q api.PriorityRequest) (api.PriorityReport, error) {
	var out api.PriorityReport
	rq, err := post("/v1/jobs/priority", nil, q)
	if err != nil {
		return out, err
	}
	_, err = c.json(ctx, rq, &out)
	return out, err
}

// DeleteJob erases an ended job with all of its data. It requires an admin's token. The error is
// job.ErrConflict if the job or its batch has not ended.
func (c *Client) DeleteJob(ctx context.Context, id job.ID) (out fleet.Action, err error) {
	_, err = c.json(ctx, call{method: http.MethodDelete, path: jobPath(id)}, &out)
	return out, err
}

// DeleteBatch erases a batch and all of its jobs, like DeleteJob.
func (c *Client) DeleteBatch(ctx context.Context, id job.ID) (out fleet.Action, err error) {
	_, err = c.json(ctx, call{method: http.MethodDelete, path: batchPath(id)}, &out)
	return out, err
}
