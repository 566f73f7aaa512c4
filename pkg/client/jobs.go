package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// Run submits a job and waits for its result until ctx ends.
func (c *Client) Run(ctx context.Context, spec job.Spec) (*job.Result, error) {
	raw, err := c.RunFields(ctx, spec)
	if err != nil {
		return nil, err
	}
	return decodeResult(raw)
}

// RunFields is Run for some fields of the result, such as id and outcome. It returns the JSON of a
// job.Result with only these; no fields means all. The error for an unknown field is a
// *job.FieldError, and nothing is submitted.
func (c *Client) RunFields(ctx context.Context, spec job.Spec, fields ...string) (json.RawMessage, error) {
	rq, err := post("/v1/run", only(waiting(turn), fields), spec)
	if err != nil {
		return nil, err
	}
	var raw json.RawMessage
	resp, err := c.json(ctx, rq, &raw)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return raw, nil
	}
	var a api.Accepted
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, fmt.Errorf("run: read the answer: %w", err)
	}
	return c.ResultFields(ctx, a.ID, fields...)
}

// only restricts a response to some fields; none means all.
func only(q url.Values, fields []string) url.Values {
	if len(fields) > 0 {
		q.Set("fields", strings.Join(fields, ","))
	}
	return q
}

func decodeResult(raw []byte) (*job.Result, error) {
	var r job.Result
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	return &r, nil
}

// Submit submits a job.
func (c *Client) Submit(ctx context.Context, spec job.Spec) (api.Accepted, error) {
	var a api.Accepted
	rq, err := post("/v1/jobs", nil, spec)
	if err != nil {
		return a, err
	}
	_, err = c.json(ctx, rq, &a)
	return a, err
}

// Job returns the current state of a job. With a wait, it returns when the job has a terminal state
// or the wait is over.
func (c *Client) Job(ctx context.Context, id job.ID, wait time.Duration) (*job.Job, error) {
	raw, err := c.JobFields(ctx, id, wait)
	if err != nil {
		return nil, err
	}
	var j job.Job
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	return &j, nil
}

// JobFields is Job for some fields, such as id and state. It returns the JSON of a job.Job with
// only these; no fields means all. With a wait, the state is always included.
func (c *Client) JobFields(ctx context.Context, id job.ID, wait time.Duration, fields ...string) (json.RawMessage, error) {
	if wait > 0 && len(fields) > 0 && !slices.Contains(fields, "state") {
		fields = append(slices.Clone(fields), "state")
	}
	deadline := time.Now().Add(wait)
	for {
		var raw json.RawMessage
		if _, err := c.json(ctx, get(jobPath(id), only(waiting(time.Until(deadline)), fields)), &raw); err != nil {
			return nil, err
		}
		if time.Until(deadline) <= 0 {
			return raw, nil
		}
		var j struct{ State job.State }
		if err := json.Unmarshal(raw, &j); err != nil {
			return nil, fmt.Errorf("read job: %w", err)
		}
		if j.State.Terminal() {
			return raw, nil
		}
	}
}

// Result waits for the result of a job until ctx ends.
func (c *Client) Result(ctx context.Context, id job.ID) (*job.Result, error) {
	raw, err := c.ResultFields(ctx, id)
	if err != nil {
		return nil, err
	}
	return decodeResult(raw)
}

// ResultFields is Result for some fields, such as id and outcome. It returns the JSON of a
// job.Result with only these; no fields means all.
func (c *Client) ResultFields(ctx context.Context, id job.ID, fields ...string) (json.RawMessage, error) {
	for {
		var raw json.RawMessage
		_, err := c.json(ctx, get(jobPath(id)+"/result", only(waiting(turn), fields)), &raw)
		if err == nil {
			return raw, nil
		}
		if !errors.Is(err, job.ErrNotFound) {
			return nil, err
		}
		// Either the result is not recorded yet or the job does not exist. In the second case stop
		// waiting.
		if _, err := c.Job(ctx, id, 0); err != nil {
			return nil, err
		}
	}
}

// Cancel requests the end of a job and returns its state a moment ago.
func (c *Client) Cancel(ctx context.Context, id job.ID) (api.Accepted, error) {
	var a api.Accepted
	rq, err := post(jobPath(id)+"/cancel", nil, nil)
	if err != nil {
		return a, err
	}
	_, err = c.json(ctx, rq, &a)
	return a, err
}

// CancelLabeled requests the end of every job with all of the labels, its own or its batch's, and
// returns the number of matches.
func (c *Client) CancelLabeled(ctx context.Context, labels map[string]string) (api.CancelReport, error) {
	return c.CancelMany(ctx, api.CancelRequest{Labels: labels})
}

// JobFilter selects jobs that match all of its fields.
type JobFilter struct {
	Tenant  string            // for operators: jobs of this tenant, or of all (AllTenants); empty: the caller's
	State   job.State         // empty: any
	Outcome job.Outcome       // empty: any, including none
	Batch   job.ID            // empty: any or none
	Labels  map[string]string // the job's own or its batch's
	Since   time.Time         // earliest time of submission; zero: unlimited
	Until   time.Time         // submitted before this time; zero: unlimited
	Failed  bool              // ended without success
	Failure job.Outcome       // failure class as in job.Summary; empty: any

	Name, NamePrefix, Image, Worker string
	MinDuration, MaxDuration        time.Duration // from start to end, or to now; 0: any
	Text                            string        // part of its message
}

// Jobs lists jobs, last submitted first. A selective filter over many jobs takes many requests.
func (c *Client) Jobs(ctx context.Context, f JobFilter) iter.Seq2[job.Summary, error] {
	q := f.query()
	return func(yield func(job.Summary, error) bool) {
		q := maps.Clone(q)
		for {
			var page api.JobList
			if _, err := c.json(ctx, get("/v1/jobs", q), &page); err != nil {
				yield(job.Summary{}, err)
				return
			}
			for _, j := range page.Jobs {
				if !yield(j, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.Set("before", string(page.Next))
		}
	}
}

// Artifacts lists the artifacts of a job.
func (c *Client) Artifacts(ctx context.Context, id job.ID) ([]job.Artifact, error) {
	var out api.ArtifactList
	_, err := c.json(ctx, get(jobPath(id)+"/artifacts", nil), &out)
	return out.Artifacts, err
}

// Artifact opens an artifact by its path inside the sandbox. The caller closes it.
func (c *Client) Artifact(ctx context.Context, id job.ID, path string) (io.ReadCloser, error) {
	resp, err := c.do(ctx, get(jobPath(id)+"/artifacts/"+strings.TrimPrefix(path, "/"), nil))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Output opens the complete kept output of a finished job. stream is stdout or stderr, step the
// number of a step or -1 for the whole program. The result has the same output unless
// job.Output.Stored is set. The caller closes it.
func (c *Client) Output(ctx context.Context, id job.ID, stream string, step int) (io.ReadCloser, error) {
	query := url.Values{}
	if step >= 0 {
		query.Set("step", strconv.Itoa(step))
	}
	resp, err := c.do(ctx, get(jobPath(id)+"/output/"+url.PathEscape(stream), query))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// HasBlob reports whether an input is already stored.
func (c *Client) HasBlob(ctx context.Context, digest string) (bool, error) {
	_, err := c.json(ctx, call{method: http.MethodHead, path: "/v1/blobs/" + digest}, nil)
	if errors.Is(err, job.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// PutBlob uploads an input and returns its digest for job.File.Blob. It reads r twice, unless the
// input is already stored.
func (c *Client) PutBlob(ctx context.Context, r io.ReadSeeker) (digest string, err error) {
	sum, err := sumOf(r)
	if err != nil {
		return "", err
	}
	digest = fmt.Sprintf("sha256:%x", sum)
	if have, err := c.HasBlob(ctx, digest); have || err != nil {
		return digest, err
	}
	rq := call{method: http.MethodPut, path: "/v1/blobs/" + digest, header: http.Header{}, body: rewinding(r)}
	rq.header.Set("Content-Type", "application/octet-stream")
	_, err = c.json(ctx, rq, nil)
	return digest, err
}

func jobPath(id job.ID) string { return "/v1/jobs/" + string(id) }
