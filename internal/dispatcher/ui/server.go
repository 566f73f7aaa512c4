package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/token"
	"github.com/assay-run/assay/internal/site"
)

//go:embed assets templates
var files embed.FS

// Config has the parts that a Server needs.
type Config struct {
	API  http.Handler  // serves all other requests
	Gate identity.Gate // identifies tokens; the API has the same gate in AcceptVisitors
	// Key seals cookies: at least 32 bytes that all dispatchers of a fleet share. With nil, the process makes its own:
	// visitors then have to sign in again at another dispatcher and after a restart.
	Key    []byte
	Site   site.Guard // decides about requests from browsers
	Issuer Issuer     // signs in people without a key; optional
	// Waits is how long a page waits for slow data; the default is pageWaits.
	Waits  time.Duration
	Secure bool             // sends cookies only over TLS, also if a proxy terminates it
	Log    *slog.Logger     // optional
	Now    func() time.Time // optional, for tests
}

// Issuer identifies people, for example by OpenID Connect.
type Issuer interface {
	// Begin returns where to redirect the browser, and the state that Finish needs.
	Begin(ctx context.Context) (location string, attempt json.RawMessage, err error)
	// Finish returns the person for a state and a code, and the expiry of this identity.
	Finish(ctx context.Context, attempt json.RawMessage, state, code string) (who identity.Identity, until time.Time, err error)
}

// Server serves the web page and passes all other requests to the API.
type Server struct {
	Config
	mux    *http.ServeMux
	seals  *token.Sealer
	pages  *pages
	assets map[string]asset
	keeps  *pageCaches
	codes  codes
	open   bool // no sign-in is required
}

// New returns a Server. It fails if a template is invalid or the key is too short.
func New(c Config) (*Server, error) {
	if c.Key == nil {
		c.Key = make([]byte, 32)
		_, _ = rand.Read(c.Key) // never fails
	}
	if len(c.Key) < 32 {
		return nil, errors.New("web page: the key has less than 32 bytes")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Waits = cmp.Or(c.Waits, pageWaits)
	s := &Server{Config: c, mux: http.NewServeMux(), keeps: newPageCaches()}
	s.open = identity.IsOpen(c.Gate)
	var err error
	if s.seals, err = token.NewSealer(c.Key, c.Now); err != nil {
		return nil, err
	}
	if s.assets, err = readAssets(); err != nil {
		return nil, err
	}
	if s.pages, err = readPages(s.assets, s.Now); err != nil {
		return nil, err
	}
	zip, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.MinSize(1<<10), gzhttp.ContentTypes([]string{"text/html", "text/css", "text/javascript", "application/json"}))
	if err != nil {
		return nil, fmt.Errorf("web page: compression: %w", err)
	}
	for _, r := range s.routes() {
		h := http.Handler(s.serveVisitor(r))
		if !r.streams {
			h = zip(h)
		}
		s.mux.Handle(r.pattern, h)
	}
	s.mux.HandleFunc("POST /ui/signin/code", s.makeCode)
	s.mux.Handle("GET /ui/assets/{name}", zip(http.HandlerFunc(s.asset)))
	return s, nil
}

// ServeHTTP serves the pages under /ui/, redirects browsers from / to them, and passes all other requests to the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root := r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
	if !root && r.URL.Path != "/ui" && !strings.HasPrefix(r.URL.Path, "/ui/") {
		s.API.ServeHTTP(w, r)
		return
	}
	if err := s.Site.Check(r); err != nil {
		harden(w.Header())
		http.Error(w, api.NewProblem(err).Detail, http.StatusForbidden)
		return
	}
	switch {
	case root:
		w.Header().Set("Vary", "Accept")
		http.Redirect(w, r, "/ui/", http.StatusSeeOther)
	case r.URL.Path == "/ui":
		http.Redirect(w, r, "/ui/", http.StatusMovedPermanently)
	default:
		s.mux.ServeHTTP(w, r)
	}
}

// route is one route of the page.
type route struct {
	pattern string
	role    identity.Role // None: for everyone
	serve   func(v *visit) error
	streams bool // no compression and no time limit
	slow    bool // waits for a program, without a time limit
}

func (s *Server) routes() []route {
	all := []route{
		{pattern: "GET /ui/{$}", role: identity.Reader, serve: s.overview},
		{pattern: "GET /ui/signin", serve: s.signin},
		{pattern: "POST /ui/signin", serve: s.signIn},
		{pattern: "POST /ui/signout", serve: s.signOut},
		{pattern: "GET /ui/signin/issuer", serve: s.oidcBegin},
		{pattern: "GET /ui/signin/callback", serve: s.oidcFinish},

		{pattern: "GET /ui/batches", role: identity.Reader, serve: s.batches},
		{pattern: "GET /ui/batches/{id}", role: identity.Reader, serve: s.batch},
		{pattern: "GET /ui/batches/{id}/map", role: identity.Reader, serve: s.batchMap},
		{pattern: "GET /ui/batches/{id}/at/{n}", role: identity.Reader, serve: s.batchCell},
		{pattern: "GET /ui/compare", role: identity.Reader, serve: s.compare},
		{pattern: "GET /ui/jobs", role: identity.Reader, serve: s.jobs},
		{pattern: "GET /ui/jobs/{id}", role: identity.Reader, serve: s.job},
		{pattern: "GET /ui/jobs/{id}/log/{stream}", role: identity.Reader, serve: s.log},
		{pattern: "GET /ui/jobs/{id}/logs", role: identity.Reader, serve: s.logs, streams: true},
		{pattern: "GET /ui/jobs/{id}/output/{stream}", role: identity.Reader, serve: s.output, streams: true},
		{pattern: "GET /ui/jobs/{id}/artifacts/{path...}", role: identity.Reader, serve: s.artifact, streams: true},
		{pattern: "GET /ui/jobs/{id}/spec.json", role: identity.Reader, serve: s.spec},

		{pattern: "GET /ui/sessions", role: identity.Reader, serve: s.sessions},
		{pattern: "POST /ui/sessions", role: identity.Submitter, serve: s.openSession, slow: true},
		{pattern: "GET /ui/sessions/{id}", role: identity.Reader, serve: s.session},
		{pattern: "POST /ui/sessions/{id}/execute", role: identity.Submitter, serve: s.execute, slow: true},

		{pattern: "GET /ui/workers", role: identity.Reader, serve: s.workers},
		{pattern: "GET /ui/tenants", role: identity.Reader, serve: s.tenants},
		{pattern: "GET /ui/keys", role: identity.Submitter, serve: s.keys},
		{pattern: "GET /ui/audit", role: identity.Operator, serve: s.audit},

		{pattern: "GET /ui/do/{action}", role: identity.Reader, serve: s.ask},
		{pattern: "POST /ui/do/{action}", role: identity.Reader, serve: s.act},
		{pattern: "/ui/", serve: func(v *visit) error { return errNoPage }},
	}
	return all
}
