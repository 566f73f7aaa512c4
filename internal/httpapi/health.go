package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/httpapi/web"
)

// healthz says that the process answers: whoever restarts processes asks here.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// queuePatience is less than probes have.
const queuePatience = 500 * time.Millisecond

// readyz says whether a job can be accepted now: load balancers ask here. That
// takes the store alone: while the queue is away jobs wait, and taking every
// dispatcher out of service would only keep clients from submitting and reading.
// How the queue is, is said beside it.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if err := s.Store.Ping(r.Context()); err != nil {
		return fmt.Errorf("the store does not answer: %w", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), queuePatience)
	defer cancel()
	status := "ok"
	if err := s.Queue.Ping(ctx); err != nil {
		status = "unavailable"
		s.Log.WarnContext(ctx, "queue unavailable", "error", err)
	}
	return web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok", "queue": status})
}

func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteRaw(w, http.StatusOK, api.OpenAPI)
}
