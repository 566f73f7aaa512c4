package dropin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// Names by which operators enable endpoints.
const (
	SandboxFusion       = "sandboxfusion"         // under /sandboxfusion
	SandboxFusionAtRoot = "sandboxfusion-at-root" // the same at /, where its clients expect it
	Piston              = "piston"                // under /piston
	CodeJudge           = "code-judge"            // under /code-judge
)

// Names returns all names.
func Names() []string { return []string{SandboxFusion, SandboxFusionAtRoot, Piston, CodeJudge} }

// Jobs submits jobs and waits for them.
type Jobs interface {
	// RunJob submits the JSON of a job.Spec as the caller of r and returns its result, or nil if there is none within
	// wait. It also returns the id of a submitted job together with an error.
	RunJob(r *http.Request, spec []byte, wait time.Duration) (job.ID, json.RawMessage, error)
	// CancelJob cancels a job after its client has stopped waiting.
	CancelJob(r *http.Request, id job.ID)
	// Load returns the number of the caller's queued jobs and the number of connected workers.
	Load(r *http.Request) (waiting int64, workers int, err error)
}

// Sessions opens and calls sessions. *session.Service implements it.
type Sessions interface {
	Open(ctx context.Context, tenant string, spec job.SessionSpec) (*job.Session, error)
	Execute(ctx context.Context, tenant string, id job.ID, req api.ExecuteRequest) (json.RawMessage, error)
	Call(ctx context.Context, c control.SessionCall) (control.SessionReply, *control.SessionEnd, error)
}

// Policies reads stored policies. Every store.Policies implements it.
type Policies interface {
	Policy(ctx context.Context, tenant, name string, version int) (json.RawMessage, error)
}

// Handlers serves the compatible routes. Every exported field is required.
type Handlers struct {
	Jobs     Jobs
	Sessions Sessions
	Policies Policies
	Ceiling  func(ctx context.Context, tenant string) (policy.Ceiling, error)
	Files    *files.Files
	// Languages returns the languages of an image with their versions, or nil if they are unknown.
	Languages func(image string) map[string]string

	stored stored
}

// Routes returns the routes of the enabled endpoints.
func (h *Handlers) Routes(on []string) (all []web.Route) {
	if slices.Contains(on, SandboxFusion) {
		all = append(all, h.sandboxFusion("/sandboxfusion")...)
	}
	if slices.Contains(on, SandboxFusionAtRoot) {
		all = append(all, h.sandboxFusion("")...)
	}
	if slices.Contains(on, Piston) {
		all = append(all, h.piston("/piston")...)
	}
	if slices.Contains(on, CodeJudge) {
		all = append(all, h.codeJudge("/code-judge")...)
	}
	return all
}

// patience is how long a request may wait to be admitted, because of the limits of the dispatcher or the tenant. It
// counts towards the request's time.
const patience = 8 * time.Second

// at returns a route whose clients send the token in the URL, and which writes errors with fail.
func at(pattern string, fail web.Failure, serve func(http.ResponseWriter, *http.Request) error) web.Route {
	return web.Route{Pattern: pattern, Role: identity.Submitter, Serve: serve, Fail: fail, Patience: patience, Basic: true}
}

// pong returns a route that only responds "pong".
func pong(pattern string) web.Route {
	return web.OpenAt(pattern, func(w http.ResponseWriter, _ *http.Request) error {
		return web.WriteJSON(w, http.StatusOK, "pong")
	})
}

// body reads and decodes a request of at most limit bytes.
func body(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	raw, err := readBody(w, r, limit)
	if err != nil {
		return err
	}
	return decode(raw, "", into)
}

// readBody returns the body of a request after replacing invalid text.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if err := web.WantJSON(r); err != nil {
		return nil, err
	}
	raw, err := web.ReadBody(w, r, limit)
	if err != nil {
		return nil, err
	}
	return readable(raw), nil
}

// text replaces invalid UTF-8, because these servers' responses are text.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
