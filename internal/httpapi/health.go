package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/httpapi/web"
)

// healthz reports that the process responds. It is a liveness probe.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// queuePatience is less than the usual timeout of probes.
const queuePatience = 500 * time.Millisecond

// readyz reports whether the dispatcher can accept jobs. It is a readiness probe and depends on the store only. Without
// the queue, jobs wait; taking all dispatchers out of service would only keep clients from submitting and reading. The
// response includes the state of the queue.
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
