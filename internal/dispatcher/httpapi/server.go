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
	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/account"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/browse"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/sessions"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/intake"
	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/internal/dispatcher/session"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/internal/dispatcher/token"
	"github.com/assay-run/assay/internal/dispatcher/watch"
	"github.com/assay-run/assay/internal/mcp"
	"github.com/assay-run/assay/internal/site"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// Watcher notifies of possible changes of jobs and batches. The API's own dispatcher implements it.
type Watcher interface {
	// WatchRecord is WatchJob for callers that need only the record. record returns the record if this dispatcher wrote
	// it, else nil.
	WatchRecord(job.ID) (changed <-chan struct{}, record func() json.RawMessage, stop func())
	// WatchJob and WatchBatch return a channel that yields when the job or batch may have changed. Hints may be missing
	// or superfluous. The caller must call stop.
	WatchJob(id job.ID) (changed <-chan struct{}, stop func())
	WatchBatch(id job.ID) (changed <-chan struct{}, stop func())
}

// Canceler asks a worker to stop a job. control.Bus implements it.
type Canceler interface {
	SendCancel(worker string, l store.LeaseRef) error
}

// Queue reports whether the queue delivers. queue.Queue implements it.
type Queue interface {
	Ping(ctx context.Context) error
}

// Secrets stores the secrets of tenants. *secret.Keeper implements it.
type Secrets interface {
	Put(ctx context.Context, a *store.Action, tenant, name, value string) error
	List(ctx context.Context, tenant string) ([]store.StoredSecret, error)
	Delete(ctx context.Context, a *store.Action, tenant, name string) error
}

// Objects stores blobs and artifacts. *object.Store implements it.
type Objects interface {
	files.Objects
	admin.Objects
	PutBlob(ctx context.Context, tenant string, r io.Reader, limit int64) (ref string, n int64, err error)
	StatBlob(ctx context.Context, tenant, ref string) (object.Info, error)
}

// Config has the parts that a Server needs: services, and data to read. Fields are required unless marked optional.
type Config struct {
	Admit    *admit.Admitter  // validates policies
	Intake   *intake.Service  // accepts jobs
	Sessions *session.Service // opens sessions and relays their operations
	Admin    *admin.Admin     // performs operators' actions
	Workers  *fleet.Fleet     // connected workers

	Store    Store
	Secrets  Secrets
	Objects  Objects
	Watcher  Watcher
	Canceler Canceler
	Auth     identity.Gate
	Site     site.Guard      // decides about requests from browsers
	Queue    Queue           // for health checks only
	Pools    placement.Pools // descriptions of pools; optional
	Limits   Limits          // limits of this dispatcher; optional
	Metrics  http.Handler    // served at /metrics, to operators; optional
	Profiles http.Handler    // served at /debug/pprof/, to operators; optional
	DropIns  []string        // compatible endpoints to serve, by their names in package dropin; optional
	Log      *slog.Logger    // optional
}

// Server serves the API.
type Server struct {
	Config
	mux *http.ServeMux
	// nowhere serves requests that match no route.
	nowhere http.Handler
	// foreign serves the requests that Site refuses.
	foreign  http.Handler
	sessions *sessions.Handlers
	uploads  *uploads
	links    *files.Links
	browse   *browse.Handlers
	logs     *files.Logs
	files    *files.Files
	agents   *mcp.Handler

	fixed  map[string][]string // methods by path, of routes without wildcards
	served []string            // all patterns

	requests, spool, memory *share.Pot
	reads                   *share.Turns
	quotas                  share.Quotas
	watching                watch.Batches
	leases                  watch.Leases
	glance                  *recent.Value[api.Fleet]
	waiting                 *waiting
}

// New returns a Server.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Limits = c.Limits.withDefaults()
	s := &Server{Config: c, mux: http.NewServeMux()}
	s.Site.Shared = web.Links
	s.requests = share.NewPot("requests at once", int64(c.Limits.Requests))
	s.spool = share.NewPot("uploads", int64(c.Limits.Spool))
	s.reads = share.NewTurns(c.Limits.Reads)
	s.watching.Store = c.Store
	s.leases.Store = c.Store
	s.quotas.Ceiling = c.Admit.Ceiling
	s.memory = share.NewPot("bodies in memory", int64(c.Limits.Memory))
	s.glance, s.waiting = newGlance(c.Store), newWaiting(s)
	s.files = &files.Files{Objects: c.Objects}
	s.browse = browse.New(c.Store, s.reads, s.ofBatch)
	s.sessions = &sessions.Handlers{Store: c.Store, Objects: c.Objects, Files: s.files, Reads: s.reads, Sessions: c.Sessions}
	s.uploads = &uploads{Store: c.Store, Intake: c.Intake, Unrecorded: unwanted}
	s.logs = &files.Logs{Store: c.Store, Files: s.files, Line: c.Sessions.Line, Watch: s.watchJob, Viewers: files.NewPot()}
	s.links = &files.Links{Store: c.Store, Keys: &token.Source{Load: s.signingKey}, Artifact: s.serveArtifact, Output: s.getOutput, Enter: s.enter}
	s.agents = mcp.NewHandler(s, identity.IsOpen(c.Auth))
	for _, r := range slices.Concat(s.routes(), s.dropIns(c.DropIns), []web.Route{web.At(mcpPattern, identity.Submitter, s.serveMCP)}) {
		s.fix(r.Pattern)
		s.handle(r.Pattern, s.wrap(r))
	}
	for pattern, h := range map[string]http.Handler{"GET /metrics": c.Metrics, "GET /debug/pprof/": c.Profiles} {
		if h != nil {
			s.handle(pattern, s.forOperators(h))
		}
	}
	s.nowhere = s.wrap(web.OpenAt("/", s.noRoute))
	s.foreign = s.wrap(web.OpenAt("/", s.refuseForeign))
	s.mux.Handle("/", s.nowhere)
	return s
}

// handle registers h for pattern.
func (s *Server) handle(pattern string, h http.Handler) {
	s.served = append(s.served, pattern)
	s.mux.Handle(pattern, h)
}

// The following two methods look up their field at each call, because tests leave some fields nil.

func (s *Server) signingKey(ctx context.Context) ([]byte, error) { return s.Store.SigningKey(ctx) }

func (s *Server) watchJob(id job.ID) (changed <-chan struct{}, stop func()) {
	return s.Watcher.WatchJob(id)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = web.WithPatience(w, r, s.Limits.Patience)
	if s.Site.Check(r) != nil {
		s.foreign.ServeHTTP(w, r)
		return
	}
	if methods := s.fixed[r.URL.Path]; methods != nil && !slices.Contains(methods, r.Method) {
		s.nowhere.ServeHTTP(w, r) // no wildcard route may take the last part of a fixed path
		return
	}
	s.mux.ServeHTTP(w, r)
}

// refuseForeign returns Site's reason for refusing a request.
func (s *Server) refuseForeign(_ http.ResponseWriter, r *http.Request) error { return s.Site.Check(r) }

// fix records the method of a route without wildcards.
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

// NewHTTPServer returns a server for h without timeouts for whole bodies: bodies and responses have rolling deadlines
// (web/stall.go). At shutdown, waiting requests return at once with the current state.
func NewHTTPServer(h http.Handler) *http.Server {
	closing := make(chan struct{})
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext: func(net.Listener) context.Context {
			return web.WithClosing(context.Background(), closing)
		},
		ConnContext: identity.WithPeer,
	}
	s.RegisterOnShutdown(sync.OnceFunc(func() { close(closing) }))
	return s
}

// routes returns the whole API in the order of the OpenAPI document. A test compares the two.
func (s *Server) routes() []web.Route {
	all := []web.Route{
		web.At("POST /v1/run", identity.Submitter, s.run).Holding(web.Held),
		web.At("POST /v1/check", identity.Submitter, s.check),
		web.At("POST /v1/jobs", identity.Submitter, s.submitJob).Holding(web.Held),
		web.At("POST /v1/jobs/cancel", identity.Submitter, s.cancelJobs).Holding(web.Held),
		web.At("POST /v1/jobs/priority", identity.Submitter, s.prioritizeJobs).Holding(web.Held),
		web.At("GET /v1/jobs/{id}", identity.Reader, s.ofJob(s.getJob)).Holding(web.Held),
		web.At("GET /v1/jobs/{id}/result", identity.Reader, s.ofJob(s.getResult)).Holding(web.Held),
		web.At("POST /v1/jobs/{id}/cancel", identity.Submitter, s.ofJob(s.cancelJob)).Holding(web.Held),
		web.At("GET /v1/jobs/{id}/artifacts", identity.Reader, s.ofJob(s.listArtifacts)).Holding(web.Held),
		web.At("GET /v1/jobs/{id}/artifacts/{path...}", identity.Reader, s.ofJob(s.getArtifact)).Holding(web.Held),
		web.At("GET /v1/jobs/{id}/output/{stream}", identity.Reader, s.ofJob(s.getOutput)).Holding(web.Held),
		web.At("POST /v1/batches", identity.Submitter, s.submitBatch).Holding(web.Held),
		web.At("GET /v1/batches/{id}", identity.Reader, s.ofBatch(s.getBatch)).Holding(web.Held),
		web.At("GET /v1/batches/{id}/results", identity.Reader, s.ofBatch(s.listResults)).Holding(web.Held),
		web.At("GET /v1/batches/{id}/events", identity.Reader, s.ofBatch(s.batchEvents)).Holding(web.Held),
		web.At("POST /v1/batches/{id}/cancel", identity.Submitter, s.ofBatch(s.cancelBatch)).Holding(web.Held),
		web.At("POST /v1/batches/{id}/keepalive", identity.Submitter, s.ofBatch(s.keepBatch)).Holding(web.Held),
		web.At("POST /v1/batches/{id}/retry", identity.Submitter, s.ofBatch(s.retryBatch)).Holding(web.Label),
		web.At("PUT /v1/blobs/{digest}", identity.Submitter, s.putBlob).Holding(web.Held),
		web.At("HEAD /v1/blobs/{digest}", identity.Reader, s.headBlob).Holding(web.Held),
		web.At("GET /v1/policies", identity.Reader, s.listPolicies).Holding(web.Label),
		web.At("GET /v1/policies/{name}", identity.Reader, s.getPolicy).Holding(web.Held),
		web.At("PUT /v1/policies/{name}", identity.Submitter, s.putPolicy),
		web.At("POST /v1/policies/explain", identity.Reader, s.explainPolicy).Holding(web.Label),
		web.At("GET /v1/secrets", identity.Reader, s.listSecrets),
		web.At("PUT /v1/secrets/{name}", identity.Submitter, s.putSecret),
		web.At("DELETE /v1/secrets/{name}", identity.Submitter, s.deleteSecret),
		web.At("GET /v1/languages", identity.Reader, s.listLanguages).Holding(web.Held),
		web.At("GET /v1/workers", identity.Reader, s.listWorkers).Holding(web.Held),
		web.At("GET /v1/fleet", identity.Reader, s.getFleet).Holding(web.Policy),
		web.OpenAt("GET /healthz", s.healthz),
		web.OpenAt("GET /readyz", s.readyz),
		web.OpenAt("GET /openapi.json", s.openapi),
	}
	all = append(all, (&account.Keys{Admin: s.Admin, Who: whoOf}).Routes()...)
	all = append(all, s.links.Routes()...)
	for _, r := range s.logs.Routes() {
		r.Serve = s.ofJob(r.Serve)
		all = append(all, r.Holding(web.Held))
	}
	all = append(all, s.uploads.Routes()...)
	all = append(all, s.browse.Routes()...)
	all = append(all,
		web.At("DELETE /v1/jobs/{id}", identity.Admin, s.erase((*admin.Admin).EraseJob)),
		web.At("DELETE /v1/batches/{id}", identity.Admin, s.erase((*admin.Admin).EraseBatch)))
	all = append(all, s.sessions.Routes()...)
	of := account.Tenants{Admin: s.Admin, Queue: s.queueNow, Who: whoOf}
	all = append(all, of.Routes()...)
	return append(all, s.adminRoutes()...)
}

// noRoute serves requests that match no route: 405 if the path has routes for other methods, else 404.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) error {
	allowed := s.fixed[r.URL.Path]
	if allowed == nil {
		allowed = s.matching(r)
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return fmt.Errorf("%w: %s takes %s", api.ErrMethod, r.URL.Path, strings.Join(allowed, ", "))
	}
	return web.NotFound("%s %s does not exist; see /openapi.json", r.Method, r.URL.Path)
}

// matching returns the methods for which the path of r has a route.
func (s *Server) matching(r *http.Request) (allowed []string) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
