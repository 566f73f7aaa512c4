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

// query is the filter as the API reads it.
func (f JobFilter) query() url.Values {
	q := url.Values{"limit": {"200"}}
	for name, text := range map[string]string{"state": string(f.State), "outcome": string(f.Outcome), "failure": string(f.Failure), "batch": string(f.Batch), "name": f.Name,
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

// BatchSummary says how a batch is doing, and what those of its jobs that failed have in common.
func (c *Client) BatchSummary(ctx context.Context, id job.ID) (*fleet.BatchSummary, error) {
	var out fleet.BatchSummary
	_, err := c.json(ctx, get(batchPath(id)+"/summary", nil), &out)
	return &out, err
}

// BatchMap returns a part of the jobs of a batch, up to limit, in the order in which they were submitted: from behind after,
// the Next of the part before.
func (c *Client) BatchMap(ctx context.Context, id, after job.ID, limit int) (api.BatchMap, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if after != "" {
		q.Set("after", string(after))
	}
	var out api.BatchMap
	_, err := c.json(ctx, get(batchPath(id)+"/map", q), &out)
	return out, err
}

// CompareBatches says what differs between two batches, and lists up to limit of the jobs that flipped, from one on.
func (c *Client) CompareBatches(ctx context.Context, a, b job.ID, from, limit int) (*fleet.Comparison, error) {
	var out fleet.Comparison
	q := url.Values{"from": {strconv.Itoa(from)}, "limit": {strconv.Itoa(limit)}}
	_, err := c.json(ctx, get(batchPath(a)+"/compare/"+string(b), q), &out)
	return &out, err
}

// BatchStates says how far up to 1000 batches are: what to ask again and again rather than Batch.
func (c *Client) BatchStates(ctx context.Context, ids ...job.ID) ([]fleet.BatchState, error) {
	q := url.Values{}
	for _, id := range ids {
		q.Add("id", string(id))
	}
	var out api.BatchStates
	_, err := c.json(ctx, get("/v1/batches/states", q), &out)
	return out.States, err
}

// CancelMany asks for the end of every job under way to which all of the request applies, or says how many there are.
func (c *Client) CancelMany(ctx context.Context, q api.CancelRequest) (api.CancelReport, error) {
	var out api.CancelReport
	rq, err := post("/v1/jobs/cancel", nil, q)
	if err != nil {
		return out, err
	}
	_, err = c.json(ctx, rq, &out)
	return out, err
}

// Prioritize gives the queued jobs to which all of the request applies another priority, or says how many there are.
func (c *Client) Prioritize(ctx context.Context, q api.PriorityRequest) (api.PriorityReport, error) {
	var out api.PriorityReport
	rq, err := post("/v1/jobs/priority", nil, q)
	if err != nil {
		return out, err
	}
	_, err = c.json(ctx, rq, &out)
	return out, err
}

// DeleteJob erases a job that is over, with all that it left; it needs an admin's token. job.ErrConflict if it, or the batch that
// it is of, is not over.
func (c *Client) DeleteJob(ctx context.Context, id job.ID) (out fleet.Action, err error) {
	_, err = c.json(ctx, call{method: http.MethodDelete, path: jobPath(id)}, &out)
	return out, err
}

// DeleteBatch does that for a batch and all of its jobs.
func (c *Client) DeleteBatch(ctx context.Context, id job.ID) (out fleet.Action, err error) {
	_, err = c.json(ctx, call{method: http.MethodDelete, path: batchPath(id)}, &out)
	return out, err
}
