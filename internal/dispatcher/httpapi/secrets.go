package httpapi

import (
	"fmt"
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// maxSecretBody is the largest request to store a secret, in bytes. It leaves room for escapes.
const maxSecretBody = 256 << 10

// listSecrets lists the secrets' names. No request returns a value.
func (s *Server) listSecrets(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Secrets.List(r.Context(), web.Tenant(r))
	if err != nil {
		return fmt.Errorf("list secrets: %w", err)
	}
	if found == nil {
		found = []store.StoredSecret{}
	}
	return web.WriteJSON(w, http.StatusOK, api.SecretList{Secrets: found})
}

func (s *Server) putSecret(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if !identity.ValidName(name) {
		return job.Invalid("name", "%.80q must be 1 to 63 letters, digits, - and _", name)
	}
	var body api.SecretValue
	if err := web.ReadJSON(w, r, maxSecretBody, &body); err != nil {
		return err
	}
	err := s.own(r, "put secret", name, func(a *store.Action) error { return s.Secrets.Put(r.Context(), a, web.Tenant(r), name, body.Value) })
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) deleteSecret(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	err := s.own(r, "delete secret", name, func(a *store.Action) error { return s.Secrets.Delete(r.Context(), a, web.Tenant(r), name) })
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
