package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/token"
	"github.com/assay-run/assay/pkg/job"
)

// Lifetimes of links.
const (
	usual   = time.Hour
	longest = 7 * 24 * time.Hour
)

// purpose is the purpose of the links' tokens.
const purpose = "link"

// Store is the part of the store that Links and Logs read.
type Store interface {
	Job(ctx context.Context, tenant string, id job.ID) (*job.Job, error)
	Result(ctx context.Context, tenant string, id job.ID) (json.RawMessage, error)
}

// Links creates and serves links to single files of jobs that work without a key for a limited time. A link contains
// its target, signed (package token). Nothing is stored for it; it ends at its expiry or with its job.
type Links struct {
	Store Store
	Keys  *token.Source
	// Artifact and Output serve the file that the request's path names.
	Artifact, Output func(w http.ResponseWriter, r *http.Request) error
	// Enter takes room for a request of a tenant. The caller must call leave.
	Enter func(tenant string) (leave func(), err error)
}

// Routes returns the routes of links.
func (h *Links) Routes() []web.Route {
	return []web.Route{
		web.At("POST /v1/jobs/{id}/links", identity.Reader, h.make),
		web.OpenAt("GET "+web.Links+"{token}", h.serve),
	}
}

// leads is the target of a link.
type leads struct {
	Tenant string `json:"t"`
	Job    job.ID `json:"j"`
	Path   string `json:"p,omitempty"` // of an artifact; empty for a stream
	Stream string `json:"s,omitempty"`
	Step   *int   `json:"n,omitempty"`
}

func (h *Links) make(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	var req api.LinkRequest
	if err := web.ReadJSON(w, r, web.MaxBody, &req); err != nil {
		return err
	}
	to, ttl, err := check(req)
	if err != nil {
		return err
	}
	if ttl, err = clampLifetime(web.Identity(r), req, ttl); err != nil {
		return err
	}
	to.Tenant, to.Job = web.Tenant(r), id
	if err := h.find(r, to); err != nil {
		return err
	}
	keeper, err := h.Keys.Keeper(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return web.WriteJSON(w, http.StatusCreated, api.Link{
		URL: web.Links + keeper.Sign(purpose, to, ttl), ExpiresAt: time.Now().Add(ttl).UTC().Truncate(time.Second),
	})
}

// check validates a request for a link.
func check(req api.LinkRequest) (to leads, ttl time.Duration, err error) {
	switch {
	case (req.Path == "") == (req.Stream == ""):
		return to, 0, job.Invalid("path", "give either the path of an artifact or a stream, stdout or stderr")
	case req.Stream != "" && req.Stream != "stdout" && req.Stream != "stderr":
		return to, 0, job.Invalid("stream", "%.40q must be stdout or stderr", req.Stream)
	case req.Path != "" && req.Step != nil:
		return to, 0, job.Invalid("step", "is for a stream; leave it out for an artifact")
	case req.Step != nil && (*req.Step < 0 || *req.Step >= job.MaxSteps):
		return to, 0, job.Invalid("step", "%d is not from 0 to %d", *req.Step, job.MaxSteps-1)
	}
	if ttl = req.ExpiresIn.D(); ttl == 0 {
		ttl = usual
	}
	if ttl < time.Second || ttl > longest {
		return to, 0, job.Invalid("expires_in", "%v must be from 1s to %v", ttl, longest)
	}
	return leads{Path: req.Path, Stream: req.Stream, Step: req.Step}, ttl, nil
}

// clampLifetime returns the lifetime of a link, cut to the remaining lifetime of the caller's key. It rejects an explicit
// lifetime that is longer.
func clampLifetime(who identity.Identity, req api.LinkRequest, ttl time.Duration) (time.Duration, error) {
	left := time.Until(who.Until)
	switch {
	case who.Until.IsZero() || ttl <= left:
		return ttl, nil
	case req.ExpiresIn != 0:
		return 0, fmt.Errorf("%w: expires_in: %v exceeds the life of this key, which ends at %s; request less", job.ErrRefused, ttl, who.Until.UTC().Format(time.RFC3339))
	}
	return max(left-time.Second, time.Second), nil // leaves time for this request
}

// find checks that the target of a link exists.
func (h *Links) find(r *http.Request, to leads) error {
	raw, err := h.Store.Result(r.Context(), to.Tenant, to.Job)
	if errors.Is(err, job.ErrNotFound) {
		if _, err := h.Store.Job(r.Context(), to.Tenant, to.Job); err != nil {
			return fmt.Errorf("read job %s: %w", to.Job, err)
		}
		return web.NotFound("job %s has not ended: it has no files yet", to.Job)
	}
	if err != nil {
		return fmt.Errorf("read result: %w", err)
	}
	var res struct {
		Artifacts []job.Artifact    `json:"artifacts"`
		Steps     []json.RawMessage `json:"steps"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return fmt.Errorf("decode the recorded result of job %s: %w", to.Job, err)
	}
	if to.Path != "" && !slices.ContainsFunc(res.Artifacts, func(a job.Artifact) bool { return a.Path == to.Path }) {
		return web.NotFound("job %s has no artifact %.200q", to.Job, to.Path)
	}
	if to.Step != nil && *to.Step >= len(res.Steps) {
		return web.NotFound("job %s has %d steps, and none with the number %d", to.Job, len(res.Steps), *to.Step)
	}
	return nil
}

// serve serves the file of a link. The link alone grants access.
func (h *Links) serve(w http.ResponseWriter, r *http.Request) error {
	keeper, err := h.Keys.Keeper(r.Context())
	if err != nil {
		return err
	}
	var to leads
	switch err := keeper.Open(purpose, r.PathValue("token"), &to); {
	case errors.Is(err, token.ErrExpired):
		return fmt.Errorf("%w: the link has expired", job.ErrGone)
	case err != nil:
		return web.NotFound("the link does not exist")
	}
	leave, err := h.Enter(to.Tenant)
	if err != nil {
		return err
	}
	defer leave()
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	head.Set("Referrer-Policy", "no-referrer")
	// Serve as the tenant, with an identity that has no other rights.
	r = r.WithContext(web.WithCaller(r.Context(), &web.Caller{Identity: identity.Identity{Tenant: to.Tenant}, Arrived: time.Now()}))
	r.SetPathValue("id", string(to.Job))
	u := url.URL{Path: r.URL.Path}
	if to.Step != nil {
		u.RawQuery = "step=" + strconv.Itoa(*to.Step)
	}
	r.URL = &u
	if to.Path != "" {
		r.SetPathValue("path", strings.TrimPrefix(to.Path, "/"))
		return h.Artifact(w, r)
	}
	r.SetPathValue("stream", to.Stream)
	head.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": to.Stream + ".txt"}))
	return h.Output(w, r)
}
