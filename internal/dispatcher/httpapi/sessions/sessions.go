// Package sessions serves the routes of sessions. It decodes requests, calls package session and encodes responses.
package sessions

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/session"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// maxSpecBody is the largest request to open a session, in bytes.
const maxSpecBody = 1 << 20

// Store is the part of the store that the routes read.
type Store interface {
	Session(ctx context.Context, tenant string, id job.ID) (*job.Session, error)
	ListSessions(ctx context.Context, tenant string, live bool, limit int) ([]job.Session, error)
	Executions(ctx context.Context, tenant string, session, after job.ID, limit int) ([]store.Executed, error)
}

// Handlers serves the routes of sessions. Every field is required.
type Handlers struct {
	Sessions *session.Service
	Store    Store
	Objects  files.Objects
	Files    *files.Files
	Reads    *share.Turns // for lists
}

// Routes returns the routes of sessions in the order of the OpenAPI document.
func (h *Handlers) Routes() []web.Route {
	return []web.Route{
		web.At("POST /v1/sessions", identity.Submitter, h.create),
		web.At("GET /v1/sessions", identity.Reader, h.list),
		web.At("GET /v1/sessions/{id}", identity.Reader, h.get),
		web.At("DELETE /v1/sessions/{id}", identity.Submitter, h.end),
		web.At("POST /v1/sessions/{id}/execute", identity.Submitter, h.execute),
		web.At("GET /v1/sessions/{id}/executions", identity.Reader, h.listExecutions),
		web.At("POST /v1/sessions/{id}/fork", identity.Submitter, h.fork),
		web.At("POST /v1/sessions/{id}/interrupt", identity.Submitter, h.interrupt),
		web.At("POST /v1/sessions/{id}/reset", identity.Submitter, h.reset),
		web.At("POST /v1/sessions/{id}/keepalive", identity.Submitter, h.keep),
		web.At("PUT /v1/sessions/{id}/context", identity.Submitter, h.putContext),
		web.At("GET /v1/sessions/{id}/variables", identity.Reader, h.listVariables),
		web.At("GET /v1/sessions/{id}/variables/{name}", identity.Reader, h.getVariable),
		web.At("PUT /v1/sessions/{id}/variables/{name}", identity.Submitter, h.putVariable),
		web.At("PUT /v1/sessions/{id}/functions", identity.Submitter, h.putFunctions),
		web.At("GET /v1/sessions/{id}/events", identity.Reader, h.events),
		web.At("POST /v1/sessions/{id}/answers", identity.Submitter, h.answerCall),
		web.At("GET /v1/sessions/{id}/files/{path...}", identity.Reader, h.getFile),
		web.At("PUT /v1/sessions/{id}/files/{path...}", identity.Submitter, h.putFile),
		web.At("POST /v1/sessions/{id}/artifacts", identity.Submitter, h.export),
		web.At("GET /v1/sessions/{id}/artifacts", identity.Reader, h.listExported),
		web.At("GET /v1/sessions/{id}/artifacts/{path...}", identity.Reader, h.getExported),
	}
}

func (h *Handlers) create(w http.ResponseWriter, r *http.Request) error {
	if err := web.WantJSON(r); err != nil {
		return err
	}
	body, err := web.ReadBody(w, r, maxSpecBody)
	if err != nil {
		return err
	}
	key, err := web.Idempotency(r, body)
	if err != nil {
		return err
	}
	var spec job.SessionSpec
	if err := job.Decode(body, "", &spec); err != nil {
		return err
	}
	v, again, err := h.Sessions.OpenOnce(r.Context(), web.Tenant(r), key, spec)
	if err != nil {
		return err
	}
	return created(w, v, again)
}

// call makes a call about the session of the path.
func (h *Handlers) call(r *http.Request, c control.SessionCall) (reply control.SessionReply, end *control.SessionEnd, err error) {
	if c.Session, err = web.ID(r); err != nil {
		return reply, nil, err
	}
	c.Tenant = web.Tenant(r)
	return h.Sessions.Call(r.Context(), c)
}

func (h *Handlers) fork(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	key, err := web.Idempotency(r, nil)
	if err != nil {
		return err
	}
	v, again, err := h.Sessions.ForkOnce(r.Context(), web.Tenant(r), key, id)
	if err != nil {
		return err
	}
	return created(w, v, again)
}

// created responds with a session that this request, or an earlier one with the same key, opened.
func created(w http.ResponseWriter, v *job.Session, again bool) error {
	w.Header().Set("Location", "/v1/sessions/"+string(v.ID))
	if again {
		w.Header().Set(api.HeaderReplayed, "true")
	}
	return web.WriteJSON(w, http.StatusCreated, v)
}

func (h *Handlers) list(w http.ResponseWriter, r *http.Request) error {
	limit, err := web.Int(r, "limit", 100, 1, web.MaxPage)
	if err != nil {
		return err
	}
	state, live := r.URL.Query().Get("state"), r.URL.Query().Has("state")
	if live && state != string(job.SessionLive) {
		return job.Invalid("state", "%.40q must be %s, or left out for all sessions", state, job.SessionLive)
	}
	tenant, err := web.TenantAsked(r, "sessions")
	if err != nil {
		return err
	}
	var found []job.Session
	err = h.Reads.Do(r.Context(), web.Tenant(r), func() (err error) {
		found, err = h.Store.ListSessions(r.Context(), tenant, live, int(limit))
		return err
	})
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	if found == nil {
		found = []job.Session{}
	}
	return web.WriteJSON(w, http.StatusOK, api.SessionList{Sessions: found})
}

func (h *Handlers) get(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	v, err := h.Store.Session(r.Context(), web.Tenant(r), id)
	if err != nil {
		return fmt.Errorf("read session: %w", err)
	}
	return web.WriteJSON(w, http.StatusOK, v)
}

// end ends a session. It has no effect on an ended one.
func (h *Handlers) end(w http.ResponseWriter, r *http.Request) error {
	if _, _, err := h.call(r, control.SessionCall{Op: control.SessionClose}); err != nil && !errors.Is(err, job.ErrConflict) {
		return err
	}
	return h.get(w, r)
}
