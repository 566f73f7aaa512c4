package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/admit"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// submitBatch accepts a batch as one object, or streamed as NDJSON.
func (s *Server) submitBatch(w http.ResponseWriter, r *http.Request) error {
	switch t := mediaType(r); t {
	case api.NDJSON, "application/jsonl", "application/x-jsonlines":
		return s.submitLines(w, r)
	case "", api.JSON:
		return s.submitObject(w, r)
	default:
		return job.Invalid("Content-Type", "%.60q must be application/json or application/x-ndjson", t)
	}
}

func (s *Server) submitObject(w http.ResponseWriter, r *http.Request) error {
	for _, name := range []string{"name", "labels", "label_caps", "defaults", "lease", "callback"} { // in the order in which they are named
		if r.URL.Query().Has(name) {
			return job.Invalid(name, "is in the query of a batch of lines; one that is an object has it as a field")
		}
	}
	body, err := readBody(w, r, maxBatchBody)
	if err != nil {
		return err
	}
	key, err := idempotency(r, body)
	if err != nil {
		return err
	}
	req, err := admit.DecodeBatch(body)
	if err != nil {
		return err
	}
	in := intake{batch: s.newBatch(r, req.Name, req.Labels, key), defaults: req.Defaults}
	in.batch.Callback, in.batch.Lease = req.Callback, req.Lease.D()
	in.batch.LabelCaps = req.LabelCaps
	in.source = func(a *admit.Intake, sink admit.Sink) (int64, error) { return a.Objects(r.Context(), req.Jobs, sink) }
	return s.take(w, r, in)
}

// submitLines streams: nothing holds more of the body than a few chunks. The
// name, labels, caps and defaults are in the query, so that every line is a job and
// an error's line number is the file's.
func (s *Server) submitLines(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	b := s.newBatch(r, q.Get("name"), nil, store.Idempotency{})
	if err := fromQuery(q, &b); err != nil {
		return err
	}
	body, err := openBody(w, r, int64(s.Limits.Batch))
	if err != nil {
		return err
	}
	if _, _, err := s.roomForBatch(r.Context(), b.Tenant); err != nil {
		return err // before the body has come
	}
	sum := sha256.New()
	body, key, cleanup, err := s.keyed(r, body, sum)
	defer cleanup()
	if err != nil {
		return err
	}
	b.Idempotency = key
	in := intake{batch: b, defaults: json.RawMessage(q.Get("defaults"))}
	in.source = func(a *admit.Intake, sink admit.Sink) (int64, error) { return a.Lines(r.Context(), body, sink) }
	in.verify = func() error { return verifyDigest(r, sum) }
	return s.take(w, r, in)
}

// fromQuery fills in what a streamed batch says about itself beside its name.
func fromQuery(q url.Values, b *store.NewBatch) error {
	if text := q.Get("labels"); text != "" {
		if err := json.Unmarshal([]byte(text), &b.Labels); err != nil {
			return job.Invalid("labels", "must be a JSON object of strings")
		}
	}
	for field, into := range map[string]any{"callback": &b.Callback, "label_caps": &b.LabelCaps} {
		if text := q.Get(field); text != "" {
			if err := job.Decode([]byte(text), field, into); err != nil {
				return err
			}
		}
	}
	var err error
	b.Lease, err = leaseParam(q.Get("lease"))
	return err
}

// keyed makes a streamed body's idempotency known before the first job is
// accepted. With a Content-Digest it is in the header, and sum checks it as the
// body goes by; without one, the body goes to a nameless file first.
func (s *Server) keyed(r *http.Request, body io.Reader, sum hash.Hash) (io.Reader, store.Idempotency, func(), error) {
	nothing := func() {}
	key, err := idempotencyKey(r)
	if err != nil {
		return nil, store.Idempotency{}, nothing, err
	}
	digest, known, err := contentDigest(r)
	if err != nil {
		return nil, store.Idempotency{}, nothing, err
	}
	if key == "" || known {
		idem := store.Idempotency{}
		if key != "" {
			idem = store.Idempotency{Key: key, Hash: requestHash(r, digest)}
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
	_ = os.Remove(f.Name()) // the open descriptor keeps it; nothing to clean after a crash
	counted := &spooled{Reader: body, claim: claim{pot: s.spool, tenant: tenantOf(r)}}
	cleanup := func() { _ = f.Close(); counted.claim.release() }
	if _, err := io.Copy(io.MultiWriter(f, sum), counted); err != nil {
		return nil, store.Idempotency{}, cleanup, readError(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, store.Idempotency{}, cleanup, fmt.Errorf("spool batch: %w", err)
	}
	return f, store.Idempotency{Key: key, Hash: requestHash(r, [sha256.Size]byte(sum.Sum(nil)))}, cleanup, nil
}

func verifyDigest(r *http.Request, sum hash.Hash) error {
	want, known, err := contentDigest(r)
	if err != nil || !known {
		return err
	}
	if got := [sha256.Size]byte(sum.Sum(nil)); got != want {
		return fmt.Errorf("%w: the body's sha256 is %x", api.ErrMismatch, got)
	}
	return nil
}

func (s *Server) newBatch(r *http.Request, name string, labels map[string]string, key store.Idempotency) store.NewBatch {
	return store.NewBatch{
		ID: job.NewID(), Tenant: tenantOf(r), Name: name, Labels: labels,
		Idempotency: key,
	}
}

// intake is one batch on its way in.
type intake struct {
	batch    store.NewBatch
	defaults json.RawMessage
	source   func(*admit.Intake, admit.Sink) (int64, error) // sends chunks of jobs to the sink, in order
	verify   func() error                                   // judges the whole body, after its last byte; optional
}

// take accepts a batch, all of it or nothing. One that fits into a chunk is
// one transaction; a larger one is opened, filled while the body comes in, and
// visible only once it is sealed.
func (s *Server) take(w http.ResponseWriter, r *http.Request, in intake) (err error) {
	if err := admit.CheckBatch(in.batch); err != nil {
		return err
	}
	if err := checkLease(in.batch.Lease); err != nil {
		return err
	}
	if err := s.checkCallback(r, in.batch); err != nil {
		return err
	}
	n, trace := int64(0), startBatch(r, &in.batch)
	defer func() { trace.End(n, err) }()
	a, err := s.admit.Open(r.Context(), in.batch.Tenant, trace.Job, in.defaults, in.batch.LabelCaps)
	if err != nil {
		return err
	}
	most, room, err := s.roomForBatch(r.Context(), in.batch.Tenant)
	if err != nil {
		return err
	}
	sink := &sink{store: s.Store, ctx: r.Context(), batch: in.batch, most: most, room: room}
	n, err = in.source(a, sink.take)
	if errors.Is(err, errKnown) {
		return s.answerBatch(w, r, sink.known, true)
	}
	if err == nil && n == 0 {
		err = job.Invalid("jobs", "a batch has at least one job")
	}
	if err == nil && in.verify != nil {
		err = in.verify()
	}
	id := in.batch.ID
	if err == nil {
		id, err = sink.seal(n)
	}
	if err != nil {
		s.drop(r, sink)
		return err
	}
	if id == in.batch.ID {
		s.waiting.accepted(in.batch.Tenant, n, 1)
	}
	s.Dispatcher.Wake()
	return s.answerBatch(w, r, id, id != in.batch.ID)
}

func leaseParam(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return durationParam("lease", text)
}

func checkLease(d time.Duration) error {
	if d != 0 && (d < job.MinLease.D() || d > job.MaxLease.D()) {
		return job.Invalid("lease", "%v must be from %v to %v", d, job.MinLease.D(), job.MaxLease.D())
	}
	return nil
}

func (s *Server) checkCallback(r *http.Request, b store.NewBatch) error {
	switch {
	case b.Callback == nil:
		return nil
	case s.Callbacks == nil:
		return job.Invalid("callback", "this fleet sends no callbacks")
	}
	return s.Callbacks.Check(r.Context(), b.Tenant, *b.Callback)
}

// drop removes what was filled in of a batch that is not accepted. If we die
// first, Reap does.
func (s *Server) drop(r *http.Request, sink *sink) {
	if !sink.open {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 30*time.Second)
	defer cancel()
	if err := s.Store.DropBatch(ctx, sink.batch.ID); err != nil {
		s.Log.WarnContext(ctx, "open batch left to the reaper", "batch", sink.batch.ID, "error", err)
	}
}

// sink writes chunks to the store. It keeps the first one back: most batches
// have no second.
type sink struct {
	store store.Store
	ctx   context.Context // of the request, whose length this has
	batch store.NewBatch
	first []store.NewJob
	most  int64 // that the tenant may have, in all
	room  int64 // for as many more
	open  bool
	known job.ID // the batch that an earlier request with this key made
}

// errKnown ends the reading of a body that was accepted before.
var errKnown = errors.New("accepted before")

func (k *sink) take(jobs []store.NewJob) error {
	if k.room -= int64(len(jobs)); k.room < 0 {
		return tooManyJobs(k.most)
	}
	if k.first == nil && !k.open {
		k.first = jobs
		return nil
	}
	if !k.open {
		id, existed, err := k.store.OpenBatch(k.ctx, k.batch)
		if err != nil {
			return fmt.Errorf("open batch: %w", err)
		}
		if existed {
			k.known = id
			return errKnown
		}
		k.open = true
		if err := k.append(k.first); err != nil {
			return err
		}
		k.first = nil
	}
	return k.append(jobs)
}

func (k *sink) append(jobs []store.NewJob) error {
	if err := k.store.AppendJobs(k.ctx, k.batch.ID, jobs); err != nil {
		return fmt.Errorf("append jobs: %w", err)
	}
	return nil
}

// seal makes the batch visible and returns its id.
func (k *sink) seal(total int64) (job.ID, error) {
	if !k.open {
		k.batch.Total = total
		id, err := k.store.SubmitBatch(k.ctx, k.batch, k.first)
		if err != nil {
			return "", fmt.Errorf("submit batch: %w", err)
		}
		return id, nil
	}
	if err := k.store.SealBatch(k.ctx, k.batch.ID, total); err != nil {
		return "", fmt.Errorf("seal batch: %w", err)
	}
	k.open = false
	return k.batch.ID, nil
}
