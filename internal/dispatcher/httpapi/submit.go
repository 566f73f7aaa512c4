package httpapi

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/intake"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// submitBatch accepts a batch as one object or as an NDJSON stream.
func (s *Server) submitBatch(w http.ResponseWriter, r *http.Request) error {
	if _, err := web.Bool(r.URL.Query(), "ids"); err != nil {
		return err // before accepting any job
	}
	switch t := web.MediaType(r); t {
	case api.NDJSON, "application/jsonl", "application/x-jsonlines":
		return s.submitLines(w, r)
	case "", api.JSON:
		return s.submitObject(w, r)
	default:
		return job.Invalid("Content-Type", "%.60q must be application/json or application/x-ndjson", t)
	}
}

func (s *Server) submitObject(w http.ResponseWriter, r *http.Request) error {
	for _, name := range []string{"name", "labels", "label_caps", "defaults", "lease", "callback"} { // in the order of the documentation
		if r.URL.Query().Has(name) {
			return job.Invalid(name, "is a query parameter only of a batch of lines; in an object, send it as a field")
		}
	}
	body, err := web.ReadBody(w, r, web.MaxBatchBody)
	if err != nil {
		return err
	}
	key, err := web.Idempotency(r, body)
	if err != nil {
		return err
	}
	req, err := admit.DecodeBatch(body)
	if err != nil {
		return err
	}
	b := newBatch(r)
	b.Name, b.Labels, b.LabelCaps, b.Idempotency = req.Name, req.Labels, req.LabelCaps, key
	b.Callback, b.Lease = req.Callback, req.Lease.D()
	b.Defaults, b.Objects = req.Defaults, req.Jobs
	return s.take(w, r, b)
}

// submitLines accepts a stream and buffers only a few chunks of it. The name, labels, caps and defaults are in the
// query: so each line is a job, and errors have the line numbers of the file.
func (s *Server) submitLines(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	b := newBatch(r)
	if err := fromQuery(q, &b); err != nil {
		return err
	}
	body, err := web.OpenBody(w, r, int64(s.Limits.Batch))
	if err != nil {
		return err
	}
	if err := s.Intake.CheckRoom(r.Context(), b.Tenant); err != nil {
		return err // before reading the body
	}
	sum := sha256.New()
	body, key, cleanup, err := s.keyed(r, body, sum)
	defer cleanup()
	if err != nil {
		return err
	}
	b.Idempotency, b.Lines, b.Verify = key, body, func() error { return verifyDigest(r, sum) }
	return s.take(w, r, b)
}

// fromQuery fills in the fields of a streamed batch from the query.
func fromQuery(q url.Values, b *intake.Batch) error {
	b.Name, b.Defaults = q.Get("name"), json.RawMessage(q.Get("defaults"))
	if text := q.Get("labels"); text != "" {
		if err := json.Unmarshal([]byte(text), &b.Labels); err != nil {
			return job.Invalid("labels", "must be a JSON object of strings")
		}
	}
	for _, f := range []struct {
		name string
		into any
	}{{"callback", &b.Callback}, {"label_caps", &b.LabelCaps}} {
		if text := q.Get(f.name); text != "" {
			if err := job.Decode([]byte(text), f.name, f.into); err != nil {
				return err
			}
		}
	}
	var err error
	b.Lease, err = leaseParam(q.Get("lease"))
	return err
}

// keyed determines a streamed body's idempotency before the first job is accepted. A Content-Digest header provides the
// hash, and sum verifies it while the body is read. Without one, the body is first spooled to an unlinked file.
func (s *Server) keyed(r *http.Request, body io.Reader, sum hash.Hash) (io.Reader, store.Idempotency, func(), error) {
	nothing := func() {}
	key, err := web.IdempotencyKey(r)
	if err != nil {
		return nil, store.Idempotency{}, nothing, err
	}
	digest, known, err := web.ContentDigest(r)
	if err != nil {
		return nil, store.Idempotency{}, nothing, err
	}
	if key == "" || known {
		idem := store.Idempotency{}
		if key != "" {
			idem = store.Idempotency{Key: key, Hash: web.RequestHash(r, digest)}
		}
		if known {
			body = io.TeeReader(body, sum)
		}
		return body, idem, nothing, nil
	}
	f, err := os.CreateTemp("", "assay-batch-")
	if err != nil {
		return nil, store.Idempotency{}, nothing, fmt.Errorf("spool batch: %w", err)
	}
	_ = os.Remove(f.Name()) // the open descriptor keeps the data; a crash leaves no file
	counted := &web.Spooled{Reader: body, Claim: share.Claim{Pot: s.spool, Tenant: web.Tenant(r)}}
	cleanup := func() { _ = f.Close(); counted.Claim.Release() }
	if _, err := io.Copy(io.MultiWriter(f, sum), counted); err != nil {
		return nil, store.Idempotency{}, cleanup, web.ReadError(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, store.Idempotency{}, cleanup, fmt.Errorf("spool batch: %w", err)
	}
	return f, store.Idempotency{Key: key, Hash: web.RequestHash(r, [sha256.Size]byte(sum.Sum(nil)))}, cleanup, nil
}

func verifyDigest(r *http.Request, sum hash.Hash) error {
	want, known, err := web.ContentDigest(r)
	if err != nil || !known {
		return err
	}
	if got := [sha256.Size]byte(sum.Sum(nil)); got != want {
		return fmt.Errorf("%w: the body's sha256 is %x", api.ErrMismatch, got)
	}
	return nil
}

// newBatch returns a batch with the tenant of r and whether its trace is sampled.
func newBatch(r *http.Request) intake.Batch {
	return intake.Batch{NewBatch: store.NewBatch{Tenant: web.Tenant(r)}, Unrecorded: unwanted(r)}
}

// take submits a batch and responds with it.
func (s *Server) take(w http.ResponseWriter, r *http.Request, b intake.Batch) error {
	id, replayed, err := s.Intake.SubmitBatch(r.Context(), b)
	if err != nil {
		return err
	}
	return s.answerBatch(w, r, id, replayed)
}

func leaseParam(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return web.Duration("lease", text)
}
