// Package account serves the routes of API keys and of tenants. Package admin decides who may use them.
package account

import (
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

const (
	maxKey   = 64 << 10
	keysPage = 100
)

// Keys serves the routes of keys.
type Keys struct {
	Admin *admin.Admin
	Who   func(r *http.Request) admin.Actor
}

// Routes returns the routes of keys in the order of the OpenAPI document. Restricted keys may neither create nor list
// keys.
func (h *Keys) Routes() []web.Route {
	return []web.Route{
		web.At("POST /v1/keys", identity.Submitter, h.create),
		web.At("GET /v1/keys", identity.Submitter, h.list),
		web.At("GET /v1/keys/{id}", identity.Submitter, h.get),
		web.At("DELETE /v1/keys/{id}", identity.Submitter, h.revoke),
	}
}

func (h *Keys) create(w http.ResponseWriter, r *http.Request) error {
	var q api.KeyRequest
	if err := web.ReadJSON(w, r, maxKey, &q); err != nil {
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

func (h *Keys) list(w http.ResponseWriter, r *http.Request) error {
	limit, err := web.Int(r, "limit", keysPage, 1, web.MaxPage)
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

func (h *Keys) get(w http.ResponseWriter, r *http.Request) error {
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

func (h *Keys) revoke(w http.ResponseWriter, r *http.Request) error {
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
