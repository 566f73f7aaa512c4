package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/admin"
	"github.com/assay-run/assay/internal/admit"
	"github.com/assay-run/assay/internal/fleet"
	"github.com/assay-run/assay/internal/intake"
	"github.com/assay-run/assay/internal/recent"
	"github.com/assay-run/assay/internal/session"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// Dispatcher is what the API needs of the dispatcher beside it.
type Dispatcher interface {
	intake.Dispatcher
	// WatchRecord is WatchJob for who wants the record only. Where it was written
	// by way of this dispatcher, record returns it; else nil.
	WatchRecord(job.ID) (changed <-chan struct{}, record func() json.RawMessage, stop func())
	// WatchJob and WatchBatch return a channel that yields when something about
	// the job or batch may have changed. Hints may be missing and there may be
	// too many; stop must be called.
	WatchJob(id job.ID) (changed <-chan struct{}, stop func())
	WatchBatch(id job.ID) (changed <-chan struct{}, stop func())
}

// Canceler tells a worker to stop a job; queue.Bus is one.
type Canceler interface {
	SendCancel(worker string, l store.LeaseRef) error
}

// Queue is asked whether it delivers; queue.Queue does.
type Queue interface {
	Ping(ctx context.Context) error
}

// Secrets keeps what jobs are told; *secret.Keeper is one.
type Secrets interface {
	admit.Secrets
	Put(ctx context.Context, tenant, name, value string) error
	List(ctx context.Context, tenant string) ([]store.StoredSecret, error)
	Delete(ctx context.Context, tenant, name string) error
}

// Objects is where blobs and artifacts are; *object.Store is one.
type Objects interface {
	Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error)
	GetRange(ctx context.Context, key string, offset, n int64) (io.ReadCloser, object.Info, error)
	PutBlob(ctx context.Context, tenant string, r io.Reader, limit int64) (ref string, n int64, err error)
	StatBlob(ctx context.Context, tenant, ref string) (object.Info, error)
}

// Config is what a Server stands on. Every field is needed unless it says
// otherwise.
type Config struct {
	Store      store.Store
	Secrets    Secrets
	Objects    Objects
	Dispatcher Dispatcher
	Canceler   Canceler
	Sessions   session.Line     // nil: there are none here
	Callbacks  intake.Callbacks // nil: none are sent from here
	Auth       Authenticator
	Queue      Queue           // only to say how it is
	Pools      placement.Pools // what is said of pools; optional
	Workers    *fleet.Fleet    // who is connected; default: what Store says
	Fleet      admin.Fleet     // is told what operators do; optional
	Version    string          // of this program; optional
	Limits     Limits          // of what it bears; optional
	Metrics    http.Handler    // served at /metrics, to operators; optional
	Log        *slog.Logger    // optional
}

// Server answers the API.
type Server struct {
	Config
	mux *http.ServeMux
	// nowhere answers for what no route matches.
	nowhere  http.Handler
	admit    *admit.Admitter
	intake   *intake.Service
	sessions *session.Service
	admin    *admin.Admin
	fleet    *fleet.Fleet

	fixed map[string][]string // methods of the addresses that are not of a pattern

	requests, spool, memory *pot
	reads                   *turns
	quotas                  quotas
	watching                watching
	leases                  leases
	glance                  *recent.Value[api.Fleet]
}

// New returns a Server.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Limits = c.Limits.withDefaults()
	if c.Workers == nil {
		c.Workers = fleet.New(fleet.Config{Pools: c.Pools, Every: time.Second, Log: c.Log}, c.Store)
	}
	s := &Server{Config: c, mux: http.NewServeMux(), fleet: c.Workers}
	s.admit = &admit.Admitter{
		Policies: c.Store,
		Tenants:  admit.Recent(c.Store),
		Blobs:    c.Objects,
		Secrets:  c.Secrets,
		Pool:     s.fleet.Pool,
		Reserved: s.fleet.Reserved,
		Room:     s.fleet.Room,
		Hosts:    s.fleet.Hosts,
	}
	s.admin = &admin.Admin{Store: c.Store, Fleet: c.Fleet, Wake: func() { c.Dispatcher.Wake() }, Stop: func(worker string, l store.LeaseRef) error { return c.Canceler.SendCancel(worker, l) }, Pool: s.fleet.Pool, Version: c.Version, Log: c.Log}
	s.requests = newPot("requests at once", int64(c.Limits.Requests))
	s.spool = newPot("uploads", int64(c.Limits.Spool))
	s.reads = newTurns(c.Limits.Reads)
	s.watching.store = c.Store
	s.leases.store = c.Store
	s.quotas.ceiling = s.admit.Ceiling
	s.memory = newPot("bodies in memory", int64(c.Limits.Memory))
	s.glance = newGlance(c.Store)
	s.intake = intake.New(intake.Config{Store: c.Store, Admit: s.admit, Dispatcher: c.Dispatcher, Fleet: s.fleet, Callbacks: c.Callbacks,
		Queued: c.Limits.Queued, Batches: c.Limits.Batches, Log: c.Log})
	s.sessions = session.New(session.Config{Store: c.Store, Line: c.Sessions, Fleet: c.Workers, Admit: s.admit, Log: c.Log})
	for _, r := range s.routes() {
		s.fix(r.pattern)
		s.mux.Handle(r.pattern, s.wrap(r))
	}
	if c.Metrics != nil {
		s.mux.Handle("GET /metrics", s.forOperators(c.Metrics))
	}
	s.nowhere = s.wrap(route{pattern: "/", open: true, serve: noRoute})
	s.mux.Handle("/", s.nowhere)
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = withPatience(w, r, s.Limits.Patience)
	if methods := s.fixed[r.URL.Path]; methods != nil && !slices.Contains(methods, r.Method) {
		s.nowhere.ServeHTTP(w, r) // never the thing that a pattern would take its last part for
		return
	}
	s.mux.ServeHTTP(w, r)
}

// fix notes the method of an address that is not of a pattern.
func (s *Server) fix(pattern string) {
	method, path, _ := strings.Cut(pattern, " ")
	if strings.Contains(path, "{") {
		return
	}
	if s.fixed == nil {
		s.fixed = map[string][]string{}
	}
	s.fixed[path] = append(s.fixed[path], method)
	if method == http.MethodGet {
		s.fixed[path] = append(s.fixed[path], http.MethodHead)
	}
}

// NewHTTPServer returns a server for h whose timeouts leave streams alone:
// bodies and answers have rolling deadlines of their own (see stall.go). When it
// is shut down, requests that wait are answered at once with what there is.
func NewHTTPServer(h http.Handler) *http.Server {
	closing := make(chan struct{})
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), closingKey{}, (<-chan struct{})(closing))
		},
	}
	s.RegisterOnShutdown(sync.OnceFunc(func() { close(closing) }))
	return s
}

type closingKey struct{}

// closing returns a channel that is closed when the server is shut down; nil
// for a server of another make.
func closing(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(closingKey{}).(<-chan struct{})
	return c
}

// route is one line of the API. open routes need no token.
type route struct {
	pattern string
	open    bool
	serve   func(s *Server, w http.ResponseWriter, r *http.Request) error
}

// routes is the whole API, in the order of the OpenAPI document. A test holds
// the two together.
func (s *Server) routes() []route {
	all := []route{
		{"POST /v1/run", false, (*Server).run},
		{"POST /v1/check", false, (*Server).check},
		{"POST /v1/jobs", false, (*Server).submitJob},
		{"GET /v1/jobs", false, (*Server).listJobs},
		{"POST /v1/jobs/cancel", false, (*Server).cancelJobs},
		{"GET /v1/jobs/{id}", false, (*Server).getJob},
		{"GET /v1/jobs/{id}/result", false, (*Server).getResult},
		{"POST /v1/jobs/{id}/cancel", false, (*Server).cancelJob},
		{"GET /v1/jobs/{id}/artifacts", false, (*Server).listArtifacts},
		{"GET /v1/jobs/{id}/artifacts/{path...}", false, (*Server).getArtifact},
		{"GET /v1/jobs/{id}/output/{stream}", false, (*Server).getOutput},
		{"POST /v1/batches", false, (*Server).submitBatch},
		{"GET /v1/batches", false, (*Server).listBatches},
		{"GET /v1/batches/{id}", false, (*Server).getBatch},
		{"GET /v1/batches/{id}/results", false, (*Server).listResults},
		{"GET /v1/batches/{id}/events", false, (*Server).batchEvents},
		{"POST /v1/batches/{id}/cancel", false, (*Server).cancelBatch},
		{"POST /v1/batches/{id}/keepalive", false, (*Server).keepBatch},
		{"POST /v1/batches/{id}/retry", false, (*Server).retryBatch},
		{"PUT /v1/blobs/{digest}", false, (*Server).putBlob},
		{"HEAD /v1/blobs/{digest}", false, (*Server).headBlob},
		{"GET /v1/policies", false, (*Server).listPolicies},
		{"GET /v1/policies/{name}", false, (*Server).getPolicy},
		{"PUT /v1/policies/{name}", false, (*Server).putPolicy},
		{"POST /v1/policies/explain", false, (*Server).explainPolicy},
		{"GET /v1/secrets", false, (*Server).listSecrets},
		{"PUT /v1/secrets/{name}", false, (*Server).putSecret},
		{"DELETE /v1/secrets/{name}", false, (*Server).deleteSecret},
		{"POST /v1/sessions", false, (*Server).createSession},
		{"GET /v1/sessions", false, (*Server).listSessions},
		{"GET /v1/sessions/{id}", false, (*Server).getSession},
		{"DELETE /v1/sessions/{id}", false, (*Server).closeSession},
		{"POST /v1/sessions/{id}/execute", false, (*Server).execute},
		{"GET /v1/sessions/{id}/executes", false, (*Server).listExecutes},
		{"POST /v1/sessions/{id}/fork", false, (*Server).forkSession},
		{"POST /v1/sessions/{id}/interrupt", false, (*Server).interruptSession},
		{"POST /v1/sessions/{id}/reset", false, (*Server).resetSession},
		{"POST /v1/sessions/{id}/keepalive", false, (*Server).keepSession},
		{"PUT /v1/sessions/{id}/context", false, (*Server).putContext},
		{"GET /v1/sessions/{id}/variables", false, (*Server).listVariables},
		{"GET /v1/sessions/{id}/variables/{name}", false, (*Server).getVariable},
		{"PUT /v1/sessions/{id}/variables/{name}", false, (*Server).putVariable},
		{"PUT /v1/sessions/{id}/functions", false, (*Server).putFunctions},
		{"GET /v1/sessions/{id}/events", false, (*Server).sessionEvents},
		{"POST /v1/sessions/{id}/answers", false, (*Server).answerCall},
		{"GET /v1/sessions/{id}/files/{path...}", false, (*Server).getFile},
		{"PUT /v1/sessions/{id}/files/{path...}", false, (*Server).putFile},
		{"POST /v1/sessions/{id}/artifacts", false, (*Server).exportSession},
		{"GET /v1/sessions/{id}/artifacts", false, (*Server).listExported},
		{"GET /v1/sessions/{id}/artifacts/{path...}", false, (*Server).getExported},
		{"GET /v1/workers", false, (*Server).listWorkers},
		{"GET /v1/fleet", false, (*Server).getFleet},
		{"GET /healthz", true, (*Server).healthz},
		{"GET /readyz", true, (*Server).readyz},
		{"GET /openapi.json", true, (*Server).openapi},
	}
	return append(all, adminRoutes()...)
}

// noRoute answers for what no route matches: 405 if another method would have.
func noRoute(s *Server, w http.ResponseWriter, r *http.Request) error {
	allowed := s.fixed[r.URL.Path]
	if allowed == nil {
		allowed = s.matching(r)
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return fmt.Errorf("%w: %s takes %s", api.ErrMethod, r.URL.Path, strings.Join(allowed, ", "))
	}
	return notFound("%s %s: there is no such address; see /openapi.json", r.Method, r.URL.Path)
}

// matching returns the methods of the patterns that match.
func (s *Server) matching(r *http.Request) (allowed []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
