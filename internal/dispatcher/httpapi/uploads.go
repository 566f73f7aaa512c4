package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/intake"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// uploadStore is the part of the store that uploads uses.
type uploadStore interface {
	Upload(ctx context.Context, tenant string, id job.ID) (store.Upload, error)
	DropUpload(ctx context.Context, tenant string, id job.ID) error
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
}

// uploads serves batches that arrive in chunks, so that a large batch survives a broken connection. The state of an
// upload is in the store, so each dispatcher accepts each chunk.
type uploads struct {
	Store      uploadStore
	Intake     *intake.Service
	Unrecorded func(*http.Request) bool // reports whether the client sent a trace that is not sampled
}

// Routes returns the routes of uploads.
func (h *uploads) Routes() []web.Route {
	return []web.Route{
		web.At("POST /v1/uploads", identity.Submitter, h.open),
		web.At("GET /v1/uploads/{id}", identity.Submitter, h.get),
		web.At("DELETE /v1/uploads/{id}", identity.Submitter, h.drop),
		web.At("PUT /v1/uploads/{id}/chunks/{n}", identity.Submitter, h.chunk),
		web.At("POST /v1/uploads/{id}/seal", identity.Submitter, h.seal),
	}
}

func (h *uploads) open(w http.ResponseWriter, r *http.Request) error {
	var req api.UploadRequest
	body, err := h.read(w, r, &req)
	if err != nil {
		return err
	}
	key, err := web.Idempotency(r, body)
	if err != nil {
		return err
	}
	b := intake.Batch{
		NewBatch: store.NewBatch{
			Tenant: web.Tenant(r), Name: req.Name, Labels: req.Labels, LabelCaps: req.LabelCaps,
			Callback: req.Callback, Lease: req.Lease.D(), Idempotency: key,
		},
		Defaults: req.Defaults, Unrecorded: h.Unrecorded(r),
	}
	id, replayed, err := h.Intake.OpenUpload(r.Context(), b)
	if err != nil {
		return err
	}
	u, err := h.Store.Upload(r.Context(), web.Tenant(r), id)
	if err != nil {
		return fmt.Errorf("read upload: %w", err)
	}
	w.Header().Set("Location", "/v1/uploads/"+string(id))
	if replayed {
		w.Header().Set(api.HeaderReplayed, "true")
	}
	return web.WriteJSON(w, http.StatusCreated, uploadOf(u))
}

// read reads a body of JSON, which may be empty.
func (h *uploads) read(w http.ResponseWriter, r *http.Request, into any) ([]byte, error) {
	if err := web.WantJSON(r); err != nil {
		return nil, err
	}
	body, err := web.ReadBytes(w, r, web.MaxBody)
	if err != nil || len(body) == 0 {
		return body, err
	}
	return body, job.Decode(body, "", into)
}

func (h *uploads) get(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	u, err := h.Store.Upload(r.Context(), web.Tenant(r), id)
	if err != nil {
		return fmt.Errorf("read upload: %w", err)
	}
	return web.WriteJSON(w, http.StatusOK, uploadOf(u))
}

// drop discards an upload.
func (h *uploads) drop(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	if err := h.Store.DropUpload(r.Context(), web.Tenant(r), id); err != nil {
		return fmt.Errorf("drop upload: %w", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// chunk accepts one chunk completely, or not at all.
func (h *uploads) chunk(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != r.PathValue("n") {
		return job.Invalid("n", "%.40q is not the number of a chunk: 0, 1, 2 and so on", r.PathValue("n"))
	}
	switch t := web.MediaType(r); t {
	case api.NDJSON, "application/jsonl", "application/x-jsonlines":
	default:
		return job.Invalid("Content-Type", "%.60q must be application/x-ndjson", t)
	}
	// Reject a chunk that is not due before reading up to 32 MiB.
	u, err := h.Store.Upload(r.Context(), web.Tenant(r), id)
	if err != nil {
		return fmt.Errorf("read upload: %w", err)
	}
	if n > u.NextChunk {
		return fmt.Errorf("%w: the next chunk of upload %s is %d, not %d", job.ErrConflict, id, u.NextChunk, n)
	}
	if err := intake.CheckChunk(n); err != nil {
		return err
	}
	lines, err := web.ReadBytes(w, r, job.MaxChunk)
	if err != nil {
		return err
	}
	if err := verify(r, lines); err != nil {
		return err
	}
	if u, err = h.Intake.Chunk(r.Context(), web.Tenant(r), id, n, lines); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, uploadOf(u))
}

// verify compares a body with its digest, if it has one.
func verify(r *http.Request, body []byte) error {
	want, known, err := web.ContentDigest(r)
	if err != nil || !known {
		return err
	}
	if got := sha256.Sum256(body); !bytes.Equal(got[:], want[:]) {
		return fmt.Errorf("%w: the body's sha256 is %x", api.ErrMismatch, got)
	}
	return nil
}

// seal makes a batch of an upload and responds with the batch.
func (h *uploads) seal(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	var req api.SealRequest
	if _, err := h.read(w, r, &req); err != nil {
		return err
	}
	if req.Jobs != nil && *req.Jobs < 1 {
		return job.Invalid("jobs", "%d is less than 1", *req.Jobs)
	}
	if err := h.Intake.SealUpload(r.Context(), web.Tenant(r), id, req.Jobs); err != nil {
		return err
	}
	b, err := h.Store.Batch(r.Context(), web.Tenant(r), id)
	if err != nil {
		return fmt.Errorf("read batch %s: %w", id, err)
	}
	w.Header().Set("Location", "/v1/batches/"+string(id))
	return web.WriteJSON(w, http.StatusCreated, b)
}

func uploadOf(u store.Upload) api.Upload {
	out := api.Upload{ID: u.ID, Name: u.Name, NextChunk: u.NextChunk, Jobs: u.Jobs, Sealed: u.Sealed, CreatedAt: u.CreatedAt}
	if !u.Sealed {
		out.ExpiresAt = &u.DroppedAt
	}
	return out
}
