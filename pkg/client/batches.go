package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// BatchOptions holds the common properties of a batch's jobs.
type BatchOptions struct {
	Name     string
	Labels   map[string]string
	Defaults json.RawMessage // a partial job, into which every job is merged
	Callback *job.Callback   // sent when the batch is done
	// LabelCaps limits how many jobs with the same value of a label run at once.
	LabelCaps job.LabelCaps
	// Lease abandons the batch after this time without contact from its client; 0: never. Batch with
	// a wait, Results with follow, and Progress count as contact. Other clients call KeepBatch.
	Lease time.Duration
	// Key is the idempotency key of the submit, for retries by the caller, also across processes.
	// Empty: a new key for each call.
	Key string
}

// SubmitBatch submits one job for each line of r (JSON Lines), all or none. The error for a bad
// line is a *job.FieldError with its number. If r can seek, SubmitBatch reads it twice and retries
// after an unknown outcome; otherwise it streams r once.
func (c *Client) SubmitBatch(ctx context.Context, o BatchOptions, r io.Reader) (*job.Batch, error) {
	rq := call{method: http.MethodPost, path: "/v1/batches", query: url.Values{}, header: http.Header{}}
	rq.header.Set("Content-Type", api.NDJSON)
	if err := o.into(&rq); err != nil {
		return nil, err
	}
	if s, ok := r.(io.ReadSeeker); ok && seekable(s) {
		sum, err := sumOf(s)
		if err != nil {
			return nil, err
		}
		if o.Key == "" {
			rq.header.Set(api.HeaderIdempotencyKey, string(job.NewID()))
		}
		rq.header.Set(api.HeaderContentDigest, "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
		rq.body = rewinding(s)
	} else {
		rq.once, rq.body = true, func() (io.Reader, error) { return r, nil }
	}
	var b job.Batch
	_, err := c.json(ctx, rq, &b)
	return &b, err
}

func (o BatchOptions) into(rq *call) error {
	if o.Name != "" {
		rq.query.Set("name", o.Name)
	}
	if len(o.Labels) > 0 {
		raw, err := json.Marshal(o.Labels)
		if err != nil {
			return fmt.Errorf("encode labels: %w", err)
		}
		rq.query.Set("labels", string(raw))
	}
	if len(o.LabelCaps) > 0 {
		raw, err := json.Marshal(o.LabelCaps)
		if err != nil {
			return fmt.Errorf("encode label caps: %w", err)
		}
		rq.query.Set("label_caps", string(raw))
	}
	if len(o.Defaults) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, o.Defaults); err != nil {
			return job.Invalid("defaults", "is not JSON: %v", err)
		}
		rq.query.Set("defaults", compact.String())
	}
	if o.Callback != nil {
		raw, err := json.Marshal(o.Callback)
		if err != nil {
			return fmt.Errorf("encode callback: %w", err)
		}
		rq.query.Set("callback", string(raw))
	}
	if o.Lease != 0 {
		rq.query.Set("lease", o.Lease.String())
	}
	if o.Key != "" {
		rq.header.Set(api.HeaderIdempotencyKey, o.Key)
	}
	return nil
}

// specsKept is the most bytes of jobs that SubmitSpecs keeps for a retry.
const specsKept = 8 << 20

// SubmitSpecs submits the jobs from specs as one batch. It iterates once and keeps up to 8 MiB of
// JSON for a retry after an unknown outcome, as SubmitBatch does with files. It streams a larger
// batch once.
func (c *Client) SubmitSpecs(ctx context.Context, o BatchOptions, specs iter.Seq[job.Spec]) (*job.Batch, error) {
	next, stop := iter.Pull(specs)
	defer stop()
	var kept bytes.Buffer
	for enc := json.NewEncoder(&kept); kept.Len() <= specsKept; {
		s, more := next()
		if !more {
			return c.SubmitBatch(ctx, o, bytes.NewReader(kept.Bytes()))
		}
		if err := enc.Encode(s); err != nil {
			return nil, fmt.Errorf("encode job: %w", err)
		}
	}
	r, w := io.Pipe()
	written := make(chan struct{})
	defer func() {
		_ = r.Close() // ends the writer if the request ends first
		<-written
	}()
	go func() {
		defer close(written)
		_, err := kept.WriteTo(w)
		for enc := json.NewEncoder(w); err == nil; {
			s, more := next()
			if !more {
				break
			}
			err = enc.Encode(s)
		}
		_ = w.CloseWithError(err)
	}()
	return c.SubmitBatch(ctx, o, r)
}

// seekable distinguishes files from pipes, because both implement Seek.
func seekable(s io.Seeker) bool {
	_, err := s.Seek(0, io.SeekCurrent)
	return err == nil
}

// sumOf returns the sha256 of the rest of r and restores its position.
func sumOf(r io.ReadSeeker) ([]byte, error) {
	start, err := r.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	if _, err := r.Seek(start, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	return h.Sum(nil), nil
}

// Batch returns the current state of a batch. With a wait, it returns when the batch is done or the
// wait is over.
func (c *Client) Batch(ctx context.Context, id job.ID, wait time.Duration) (*job.Batch, error) {
	deadline := time.Now().Add(wait)
	if wait > 0 {
		defer c.keepLease(ctx, id)()
	}
	for {
		var b job.Batch
		if _, err := c.json(ctx, get(batchPath(id), waiting(time.Until(deadline))), &b); err != nil {
			return nil, err
		}
		if b.Done() || time.Until(deadline) <= 0 {
			return &b, nil
		}
	}
}

// AllTenants selects the jobs, batches and sessions of every tenant. It requires an operator.
const AllTenants = "*"

// Batches lists the batches of the caller's tenant, last accepted first.
func (c *Client) Batches(ctx context.Context) iter.Seq2[job.Batch, error] {
	return c.TenantBatches(ctx, "")
}

// TenantBatches lists the batches of a tenant or of AllTenants. Other tenants than the caller's
// require an operator; the error is job.ErrRefused otherwise.
func (c *Client) TenantBatches(ctx context.Context, tenant string) iter.Seq2[job.Batch, error] {
	return func(yield func(job.Batch, error) bool) {
		q := url.Values{"limit": {"100"}}
		if tenant != "" {
			q.Set("tenant", tenant)
		}
		for {
			var page api.BatchList
			if _, err := c.json(ctx, get("/v1/batches", q), &page); err != nil {
				yield(job.Batch{}, err)
				return
			}
			for _, b := range page.Batches {
				if !yield(b, nil) {
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

// CancelBatch requests the end of every job of a batch.
func (c *Client) CancelBatch(ctx context.Context, id job.ID) (*job.Batch, error) {
	return c.postBatch(ctx, batchPath(id)+"/cancel")
}

// RetryBatch submits the unsuccessful jobs of a batch again as a new batch, and returns it.
func (c *Client) RetryBatch(ctx context.Context, id job.ID) (*job.Batch, error) {
	return c.postBatch(ctx, batchPath(id)+"/retry")
}

func (c *Client) postBatch(ctx context.Context, path string) (*job.Batch, error) {
	rq, err := post(path, nil, nil)
	if err != nil {
		return nil, err
	}
	var b job.Batch
	_, err = c.json(ctx, rq, &b)
	return &b, err
}

func batchPath(id job.ID) string { return "/v1/batches/" + string(id) }
