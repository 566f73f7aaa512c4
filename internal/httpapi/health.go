package httpapi

import (
	"fmt"
	"net/http"

	"github.com/assay-run/assay/api"
)

// healthz says that the process answers: whoever restarts processes asks here.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether a job can be accepted now: load balancers ask here.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if err := s.Store.Ping(r.Context()); err != nil {
		return fmt.Errorf("the store does not answer: %w", err)
	}
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) error {
	return writeRaw(w, http.StatusOK, api.OpenAPI)
}
