package dropin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/httpapi/files"
	"github.com/assay-run/assay/internal/httpapi/web"
	"github.com/assay-run/assay/internal/identity"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// The names by which an operator switches endpoints on.
const (
	SandboxFusion       = "sandboxfusion"         // below /sandboxfusion
	SandboxFusionAtRoot = "sandboxfusion-at-root" // the same at /, where its clients expect it
	Piston              = "piston"                // below /piston
	CodeJudge           = "code-judge"            // below /code-judge
)

// Names lists them all.
func Names() []string { return []string{SandboxFusion, SandboxFusionAtRoot, Piston, CodeJudge} }

// Jobs takes jobs in and waits for them.
type Jobs interface {
	// RunJob submits the JSON of a job.Spec as the caller of r, and returns its result; nil if there is none within wait.
	// The id is that of the job, if one was submitted, even beside an error.
	RunJob(r *http.Request, spec []byte, wait time.Duration) (job.ID, json.RawMessage, error)
	// CancelJob ends a job whose result nobody waits for any more.
	CancelJob(r *http.Request, id job.ID)
	// Load is how many jobs of the caller's wait, and how many workers are connected.
	Load(r *http.Request) (waiting int64, workers int, err error)
}

// Sessions opens sessions and speaks with them; *session.Service does.
type Sessions interface {
	Open(ctx context.Context, tenant string, spec job.SessionSpec) (*job.Session, error)
	Execute(ctx context.Context, tenant string, id job.ID, req api.ExecuteRequest) (json.RawMessage, error)
	Call(ctx context.Context, c control.SessionCall) (control.SessionReply, *control.SessionEnd, error)
}

// Policies reads what tenants have stored; every store.Policies does.
type Policies interface {
	Policy(ctx context.Context, tenant, name string, version int) (json.RawMessage, error)
}

// Handlers answer the requests. Every field is needed.
type Handlers struct {
	Jobs     Jobs
	Sessions Sessions
	Policies Policies
	Ceiling  func(ctx context.Context, tenant string) (policy.Ceiling, error)
	Files    *files.Files
	// Languages returns which languages an image has, with their versions; nil if that is not known.
	Languages func(image string) map[string]string

	stored stored
}

// Routes are those of the endpoints that are switched on.
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

// patience is how long a request waits to be let in where the dispatcher has as many as it bears, or the tenant sends
// too many. It counts as a part of the request's own time.
const patience = 8 * time.Second

// at is a route of a drop-in. Its clients know a token only as a part of the address, and errors as their server has
// them.
func at(pattern string, fail web.Failure, serve func(http.ResponseWriter, *http.Request) error) web.Route {
	return web.Route{Pattern: pattern, Role: identity.Submitter, Serve: serve, Fail: fail, Patience: patience, Basic: true}
}

// pong answers those who ask whether a server is there.
func pong(pattern string) web.Route {
	return web.OpenAt(pattern, func(w http.ResponseWriter, _ *http.Request) error {
		return web.WriteJSON(w, http.StatusOK, "pong")
	})
}

// body reads a request of at most so many bytes.
func body(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	raw, err := readBody(w, r, limit)
	if err != nil {
		return err
	}
	return decode(raw, "", into)
}

// readBody returns the body of a request, with all of its texts readable.
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

// text is what a program wrote, as far as it is known: answers of these servers are text.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
