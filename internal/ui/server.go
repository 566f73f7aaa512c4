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
	"github.com/assay-run/assay/internal/identity"
	"github.com/assay-run/assay/internal/site"
	"github.com/assay-run/assay/internal/ui/seal"
)

//go:embed assets templates
var files embed.FS

// Config is what a Server stands on.
type Config struct {
	API  http.Handler  // answers everything but the page
	Gate identity.Gate // says whose token it is; the API has the same, Within
	// Key seals cookies: 32 bytes that all dispatchers of a fleet have. nil: one that this process makes, so that who
	// signed in here has to do so again elsewhere, and after a restart.
	Key    []byte
	Site   site.Guard // decides about requests of browsers
	Issuer Issuer     // signs people in who have no key; optional
	// Waits is how long a page waits for what may take long; 0: as long as is good.
	Waits  time.Duration
	Secure bool             // cookies are for TLS alone: also where TLS ends before this process
	Log    *slog.Logger     // optional
	Now    func() time.Time // optional, for tests
}

// Issuer vouches for people: an OIDC provider.
type Issuer interface {
	// Begin returns where the browser is to go, and what must be known when it comes back.
	Begin(ctx context.Context) (location string, attempt json.RawMessage, err error)
	// Finish returns who came back with a state and a code, and until when the issuer vouches for that.
	Finish(ctx context.Context, attempt json.RawMessage, state, code string) (who identity.Identity, until time.Time, err error)
}

// Server serves the page, and hands everything else to the API.
type Server struct {
	Config
	mux    *http.ServeMux
	seals  *seal.Sealer
	pages  *pages
	assets map[string]asset
	keeps  *keeps
	codes  codes
	open   bool // everybody is let in
}

// New returns a Server. It fails if it is built wrongly, or has a key that is too short.
func New(c Config) (*Server, error) {
	if c.Key == nil {
		c.Key = make([]byte, 32)
		_, _ = rand.Read(c.Key) // which never fails
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
	s := &Server{Config: c, mux: http.NewServeMux(), keeps: newKeeps()}
	s.open = identity.IsOpen(c.Gate)
	var err error
	if s.seals, err = seal.New(c.Key, c.Now); err != nil {
		return nil, err
	}
	if s.assets, err = readAssets(); err != nil {
		return nil, err
	}
	if s.pages, err = readPages(s.assets); err != nil {
		return nil, err
	}
	zip, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.MinSize(1<<10), gzhttp.ContentTypes([]string{"text/html", "text/css", "text/javascript", "application/json"}))
	if err != nil {
		return nil, fmt.Errorf("web page: compression: %w", err)
	}
	for _, r := range s.routes() {
		h := http.Handler(s.visited(r))
		if !r.streams {
			h = zip(h)
		}
		s.mux.Handle(r.pattern, h)
	}
	s.mux.HandleFunc("POST /ui/signin/code", s.makeCode)
	s.mux.Handle("GET /ui/assets/{name}", zip(http.HandlerFunc(s.asset)))
	return s, nil
}

// ServeHTTP serves the pages below /ui/, redirects browsers from / to them, and has the API
// answer all other requests.
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

// route is one address of the page.
type route struct {
	pattern string
	role    identity.Role // None: for everybody
	serve   func(v *visit) error
	streams bool // its answer is not compressed, and takes as long as it takes
	slow    bool // it takes as long as a program does
}

func (s *Server) routes() []route {
	all := []route{
		{pattern: "GET /ui/{$}", role: identity.Reader, serve: func(v *visit) error { return v.to("/ui/batches") }},
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
