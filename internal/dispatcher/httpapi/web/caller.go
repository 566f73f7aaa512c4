package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/job"
)

type callerKey struct{}

// Caller is the sender of a request, with the memory that the request's body uses.
type Caller struct {
	identity.Identity
	Memory  share.Claim
	Arrived time.Time // arrival of the request
}

// WithCaller returns ctx with the caller c.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(r *http.Request) *Caller {
	c, _ := r.Context().Value(callerKey{}).(*Caller)
	return c
}

// Tenant returns the caller's tenant. It is never empty on routes that require a token.
func Tenant(r *http.Request) string {
	if c := callerOf(r); c != nil {
		return c.Tenant
	}
	return ""
}

// Identity returns the caller's identity. On open routes it is the zero value, which has no rights.
func Identity(r *http.Request) identity.Identity {
	if c := callerOf(r); c != nil {
		return c.Identity
	}
	return identity.Identity{}
}

// TenantAsked returns the tenant that a request for a list of things is about: the caller's own or, for operators, the
// one of the parameter tenant or all (*, returned as ""). It returns job.ErrRefused for other callers.
func TenantAsked(r *http.Request, things string) (string, error) {
	text, who := r.URL.Query().Get("tenant"), Identity(r)
	switch {
	case text == "" || text == who.Tenant:
		return who.Tenant, nil
	case who.Role < identity.Operator:
		return "", fmt.Errorf("%w: %s of other tenants are for operators", job.ErrRefused, things)
	case text == "*":
		return "", nil
	case !identity.ValidName(text):
		return "", job.Invalid("tenant", "%.80q must be the name of a tenant, 1 to 63 letters, digits, - and _, or * for all", text)
	}
	return text, nil
}

// Arrived returns the time at which the request arrived, before it was admitted.
func Arrived(r *http.Request) time.Time {
	if c := callerOf(r); c != nil {
		return c.Arrived
	}
	return time.Now()
}

type closingKey struct{}

// WithClosing returns ctx with a channel that the server closes at shutdown.
func WithClosing(ctx context.Context, closing <-chan struct{}) context.Context {
	return context.WithValue(ctx, closingKey{}, closing)
}

// Closing returns a channel that is closed when the server shuts down. It is nil without WithClosing.
func Closing(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(closingKey{}).(<-chan struct{})
	return c
}

// Route is one route of the API.
type Route struct {
	Pattern string
	Role    identity.Role // lowest role that may call it; None needs no token
	Holds   Holds         // the restrictions that it enforces; callers with others are rejected
	Serve   func(w http.ResponseWriter, r *http.Request) error

	// The following fields are for routes compatible with other servers.

	Fail     Failure       // writes errors; nil writes problem documents
	Patience time.Duration // how long a request may wait to be admitted
	Basic    bool          // accepts the token as a Basic password, for clients that have it in a URL
}

// Failure writes an error.
type Failure func(w http.ResponseWriter, p api.ProblemDetails)

// At returns a route for callers with role or a higher one.
func At(pattern string, role identity.Role, serve func(w http.ResponseWriter, r *http.Request) error) Route {
	return Route{Pattern: pattern, Role: role, Serve: serve}
}

// OpenAt returns a route that needs no token.
func OpenAt(pattern string, serve func(w http.ResponseWriter, r *http.Request) error) Route {
	return Route{Pattern: pattern, Serve: serve}
}

// Holds is a set of restrictions that a route enforces on restricted callers (identity.Held).
type Holds int

// The restrictions.
const (
	Label  Holds            = 1 << iota // accepts and shows only jobs and batches with the caller's label, or none at all
	Policy                              // starts jobs only under the caller's policy, or none at all
	Held   = Label | Policy             // both
)

// Holding returns the route with the restrictions that it enforces.
func (r Route) Holding(what Holds) Route {
	r.Holds = what
	return r
}

// Admits returns an error if the route does not admit the caller.
func (r Route) Admits(who identity.Identity) error {
	switch {
	case who.Role < r.Role:
		return fmt.Errorf("%w: this needs the role %s or above; this token has the role %s", job.ErrRefused, r.Role, who.Role)
	case who.Held.Label != (identity.Label{}) && r.Holds&Label == 0:
		return fmt.Errorf("%w: this is not available to the key %.40q, which is restricted to the label %.200q", job.ErrRefused, who.Name, who.Held.Label)
	case who.Held.Policy != "" && r.Holds&Policy == 0:
		return fmt.Errorf("%w: this is not available to the key %.40q, which is restricted to the policy %q", job.ErrRefused, who.Name, who.Held.Policy)
	}
	return nil
}
