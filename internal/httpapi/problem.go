package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// fail is the one door that errors leave by.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // the client is gone
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		err = fmt.Errorf("%w: the body has more than %s", job.ErrTooLarge, job.Size(tooLarge.Limit))
	}
	p := api.NewProblem(err)
	if sc := trace.SpanContextFromContext(r.Context()); sc.HasTraceID() {
		p.Instance = sc.TraceID().String()
	}
	if p.Status >= http.StatusInternalServerError {
		s.Log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "status", p.Status, "error", err)
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter(err)))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="assay"`)
	}
	w.Header().Set("Content-Type", api.Problem)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone; nobody left to tell
}

// retryAfter is in whole seconds, one at least.
func retryAfter(err error) int {
	var l *laterError
	if !errors.As(err, &l) {
		return 1
	}
	return max(int((l.after+time.Second-1)/time.Second), 1)
}

func notFound(format string, args ...any) error {
	return fmt.Errorf("%w: %s", job.ErrNotFound, fmt.Sprintf(format, args...))
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return writeRaw(w, status, body)
}

// writeRaw answers with JSON that is already encoded.
func writeRaw(w http.ResponseWriter, status int, body []byte) error {
	w.Header().Set("Content-Type", api.JSON)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone; nobody left to tell
	return nil
}
