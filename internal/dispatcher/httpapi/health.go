package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api/openapi"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
)

// healthz reports that the process responds. It is a liveness probe.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// storePatience and queuePatience together are less than the timeout of the chart's probes.
const (
	storePatience = 2 * time.Second
	queuePatience = 500 * time.Millisecond
)

// readyz reports whether the dispatcher can accept jobs. It is a readiness probe and depends on the store only. Without
// the queue, jobs wait; taking all dispatchers out of service would only keep clients from submitting and reading. The
// response includes the state of the queue.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if err := ping(r.Context(), s.Store, storePatience); err != nil {
		return fmt.Errorf("%w: the store does not answer: %w", job.ErrUnavailable, err)
	}
	status := "ok"
	if err := ping(r.Context(), s.Queue, queuePatience); err != nil {
		status = "unavailable"
		s.Log.WarnContext(r.Context(), "queue unavailable", "error", err)
	}
	return web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok", "queue": status})
}

// ping pings a service and waits at most the given time.
func ping(ctx context.Context, service interface{ Ping(context.Context) error }, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return service.Ping(ctx)
}

func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteRaw(w, http.StatusOK, openapi.JSON())
}
