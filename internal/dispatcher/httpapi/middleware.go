package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/internal/telemetry"
)

const scope = "github.com/assay-run/assay/internal/dispatcher/httpapi"

// traceContext continues the client's trace, independent of the process's own propagator.
var traceContext = propagation.TraceContext{}

// unwanted reports whether the client sent a trace that is not sampled.
func unwanted(r *http.Request) bool {
	client := trace.SpanContextFromContext(traceContext.Extract(context.Background(), propagation.HeaderCarrier(r.Header)))
	return client.IsValid() && !client.IsSampled()
}

// seconds has the buckets of request durations: OpenTelemetry's conventional ones, and longer ones for requests that
// wait for a job.
var seconds = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300)

// wrap adds tracing, authentication, problem documents, the access log and latency metrics to a route. The route's name
// is always its pattern: user-chosen paths never become metric labels.
func (s *Server) wrap(rt web.Route) http.Handler {
	tracer := otel.Tracer(scope)
	latency, err := otel.Meter(scope).Float64Histogram("http.server.request.duration", metric.WithUnit("s"), seconds)
	if err != nil {
		otel.Handle(err)
	}
	_, path, _ := strings.Cut(rt.Pattern, " ")
	return web.Zipping(rt.Pattern, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := traceContext.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, rt.Pattern, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", path)))
		defer span.End()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		r = r.WithContext(ctx)
		s.serveRoute(rec, r, rt)

		elapsed := time.Since(start)
		span.SetAttributes(attribute.Int("http.response.status_code", rec.status))
		if rec.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(rec.status))
		}
		latency.Record(ctx, elapsed.Seconds(), metric.WithAttributes(attribute.String("http.route", path),
			attribute.String("http.request.method", methodLabel(rt)), attribute.Int("http.response.status_code", rec.status)))
		if s.Log.Enabled(ctx, slog.LevelDebug) {
			s.Log.DebugContext(ctx, "request", "method", r.Method, "path", web.LoggedPath(r), "status", rec.status,
				"bytes", rec.bytes, "ms", float64(elapsed.Microseconds())/1000, "remote", r.RemoteAddr)
		}
	})
}

// methodLabel returns the route's method, or "_OTHER" for a route without one: methods of unknown routes are free text
// and would grow the label set.
func methodLabel(rt web.Route) string {
	method, _, ok := strings.Cut(rt.Pattern, " ")
	if !ok {
		return "_OTHER"
	}
	return method
}

// serveRoute authenticates the caller and serves the route. A panic becomes a 500, with its stack in the log.
func (s *Server) serveRoute(w *recorder, r *http.Request, rt web.Route) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler {
			panic(v)
		}
		s.Log.ErrorContext(r.Context(), "handler panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		if !w.wrote {
			web.Fail(s.Log, w, r, fmt.Errorf("panic: %v", v), rt.Fail)
		}
	}()
	if rt.Role > identity.None {
		arrived := time.Now()
		if rt.Basic {
			passwordIsToken(r)
		}
		who, err := s.identify(r, rt)
		if err == nil {
			err = s.admitRequest(r, who.Tenant, rt.Patience)
		}
		if err != nil {
			web.Fail(s.Log, w, r, err, rt.Fail)
			return
		}
		tenant := who.Tenant
		defer s.requests.Give(tenant, 1)
		c := &web.Caller{Identity: who, Memory: share.Claim{Pot: s.memory, Tenant: tenant}, Arrived: arrived}
		defer c.Memory.Release()
		ctx, done := s.restrict(web.WithCaller(telemetry.Describe(r.Context(), telemetry.About{Tenant: tenant}), c), who)
		defer done()
		r = r.WithContext(ctx)
	}
	if err := answer(rt, w, r); err != nil {
		if over := context.Cause(r.Context()); errors.Is(over, api.ErrUnauthorized) {
			err = over // the caller's access ended meanwhile
		}
		if w.wrote { // a part is sent: only a closed connection can report the error
			s.Log.WarnContext(r.Context(), "response cut short", "path", web.LoggedPath(r), "error", err)
			panic(http.ErrAbortHandler)
		}
		web.Fail(s.Log, w, r, err, rt.Fail)
	}
}

// identify authenticates the sender of r and checks that the route admits it.
func (s *Server) identify(r *http.Request, rt web.Route) (identity.Identity, error) {
	who, err := s.Auth.Identify(r)
	if err == nil {
		if err = rt.Admits(who); err != nil {
			err = fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
		}
	}
	return who, err
}

// admitPause is the pause between two attempts to admit a request.
const admitPause = 50 * time.Millisecond

// admitRequest takes room for a tenant's request. It waits up to patience, before the body is read.
func (s *Server) admitRequest(r *http.Request, tenant string, patience time.Duration) error {
	counted := false // by the quota, only once
	for until := time.Now().Add(patience); ; {
		var err error
		if !counted {
			var charged io.ReadCloser
			if charged, err = s.quotas.Tenant(tenant).Begin(r.Context(), r.Body); err == nil {
				r.Body, counted = charged, true
			}
		}
		if counted {
			if err = s.requests.Take(tenant, 1); err == nil {
				return nil
			}
		}
		if time.Until(until) < admitPause || r.Context().Err() != nil {
			return err
		}
		if web.Sleep(r.Context(), admitPause, nil) {
			return err // the server is about to close
		}
	}
}

// enter takes room for a request to an open route on behalf of a tenant. The caller must call leave.
func (s *Server) enter(tenant string) (leave func(), err error) {
	if err := s.requests.Take(tenant, 1); err != nil {
		return nil, err
	}
	return func() { s.requests.Give(tenant, 1) }, nil
}

// answer checks the parameters of a request against the OpenAPI document and serves it.
func answer(rt web.Route, w http.ResponseWriter, r *http.Request) error {
	if err := web.WantType(r); err != nil {
		return err
	}
	if p, known := web.ParametersOf(rt.Pattern); known {
		if err := p.Check(r); err != nil {
			return err
		}
	}
	return rt.Serve(w, r)
}

// forOperators serves h to operators only.
func (s *Server) forOperators(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.identify(r, web.Route{Role: identity.Operator}); err != nil {
			web.Fail(s.Log, w, r, fmt.Errorf("%w (ASSAY_METRICS_LISTEN serves /metrics without a token)", err), nil)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// recorder records the status and size of a response.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	wrote  bool
}

func (w *recorder) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	w.wrote = true
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
