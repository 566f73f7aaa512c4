package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/job"
)

// Fail responds with an error. All errors leave the API here. It writes a problem document, or calls write if that is
// not nil.
func Fail(log *slog.Logger, w http.ResponseWriter, r *http.Request, err error, write Failure) {
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
		log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", LoggedPath(r), "status", p.Status, "error", err)
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(share.RetryAfter(err)))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="assay"`)
	}
	w.Header().Set("Cache-Control", "no-store")
	if write == nil {
		write = WriteProblem
	}
	write(w, p)
}

// WriteProblem responds with a problem document.
func WriteProblem(w http.ResponseWriter, p api.ProblemDetails) {
	w.Header().Set("Content-Type", api.Problem)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// NotFound returns a job.ErrNotFound with a message.
func NotFound(format string, args ...any) error {
	return fmt.Errorf("%w: %s", job.ErrNotFound, fmt.Sprintf(format, args...))
}

// WriteJSON responds with v as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return WriteRaw(w, status, body)
}

// WriteRaw responds with JSON that is already encoded.
func WriteRaw(w http.ResponseWriter, status int, body []byte) error {
	w.Header().Set("Content-Type", api.JSON)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
	return nil
}

// LoggedPath returns the request's path for logs. It omits the token of a link, because the token alone opens the link.
func LoggedPath(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.URL.Path, Links); ok && token != "" {
		return Links + "..."
	}
	return r.URL.Path
}

// Links is the path prefix of all links.
const Links = "/v1/links/"
