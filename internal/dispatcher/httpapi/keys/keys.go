// Package keys serves the routes of API keys. Package admin decides who may use them.
package keys

import (
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

const (
	maxBody = 64 << 10
	page    = 100
)

// Handlers serves the routes of keys.
type Handlers struct {
	Admin *admin.Admin
	Who   func(r *http.Request) admin.Actor
}

// Routes returns the routes of keys in the order of the OpenAPI document. Restricted keys may neither create nor list
// keys.
func (h *Handlers) Routes() []web.Route {
	return []web.Route{
		web.At("POST /v1/keys", identity.Submitter, h.create),
		web.At("GET /v1/keys", identity.Submitter, h.list),
		web.At("GET /v1/keys/{id}", identity.Submitter, h.get),
		web.At("DELETE /v1/keys/{id}", identity.Submitter, h.revoke),
	}
}

func (h *Handlers) create(w http.ResponseWriter, r *http.Request) error {
	var q api.KeyRequest
	if err := web.ReadJSON(w, r, maxBody, &q); err != nil {
		return err
	}
	made, err := h.Admin.MakeKey(r.Context(), web.Identity(r), h.Who(r).Remote, q)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", "/v1/keys/"+string(made.Key.ID))
	return web.WriteJSON(w, http.StatusCreated, made)
}

func (h *Handlers) list(w http.ResponseWriter, r *http.Request) error {
	limit, err := web.Int(r, "limit", page, 1, web.MaxPage)
	if err != nil {
		return err
	}
	var before job.ID
	if text := r.URL.Query().Get("before"); text != "" {
		if before, err = job.ParseID(text); err != nil {
			return job.Invalid("before", "%.40q is not the id of a key", text)
		}
	}
	found, err := h.Admin.Keys(r.Context(), web.Identity(r), r.URL.Query().Get("tenant"), before, int(limit))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, found)
}

func (h *Handlers) get(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	k, err := h.Admin.Key(r.Context(), web.Identity(r), id)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, k)
}

func (h *Handlers) revoke(w http.ResponseWriter, r *http.Request) error {
	id, err := web.ID(r)
	if err != nil {
		return err
	}
	k, err := h.Admin.RevokeKey(r.Context(), web.Identity(r), h.Who(r).Remote, id, r.URL.Query().Get("reason"))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, k)
}
