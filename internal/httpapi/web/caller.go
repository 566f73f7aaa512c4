package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/identity"
	"github.com/assay-run/assay/internal/share"
	"github.com/assay-run/assay/pkg/job"
)

type callerKey struct{}

// Caller is whose request it is, and what it holds of the memory for bodies until
// it is over.
type Caller struct {
	identity.Identity
	Memory  share.Claim
	Arrived time.Time // the request did
}

// WithCaller returns ctx, in which a request is c's.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(r *http.Request) *Caller {
	c, _ := r.Context().Value(callerKey{}).(*Caller)
	return c
}

// Tenant returns the tenant whose request it is; every handler behind a token has
// one.
func Tenant(r *http.Request) string {
	if c := callerOf(r); c != nil {
		return c.Tenant
	}
	return ""
}

// Identity returns who sent r: nobody, who may do nothing, on a route that is open.
func Identity(r *http.Request) identity.Identity {
	if c := callerOf(r); c != nil {
		return c.Identity
	}
	return identity.Identity{}
}

// Arrived returns when the request did, before it was let in.
func Arrived(r *http.Request) time.Time {
	if c := callerOf(r); c != nil {
		return c.Arrived
	}
	return time.Now()
}

type closingKey struct{}

// WithClosing returns ctx, in which the server is shut down when closing is closed.
func WithClosing(ctx context.Context, closing <-chan struct{}) context.Context {
	return context.WithValue(ctx, closingKey{}, closing)
}

// Closing returns a channel that is closed when the server is shut down; nil
// for a server of another make.
func Closing(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(closingKey{}).(<-chan struct{})
	return c
}

// Route is one line of the API.
type Route struct {
	Pattern string
	Role    identity.Role // who calls needs it, or more; None: everybody may, without a token
	Holds   Holds         // to what it keeps those who are held to it; others of them are refused
	Serve   func(w http.ResponseWriter, r *http.Request) error

	// The rest is for routes that answer clients of other servers.

	Fail     Failure       // writes errors; nil: as problem documents
	Patience time.Duration // how long a request waits to be let in where there is no room, or its tenant sends too many
	Basic    bool          // a token may come as the password of Basic authentication, as it does in an address
}

// Failure writes an error.
type Failure func(w http.ResponseWriter, p api.ProblemDetails)

// At is a route for those who have the role, or more.
func At(pattern string, role identity.Role, serve func(w http.ResponseWriter, r *http.Request) error) Route {
	return Route{Pattern: pattern, Role: role, Serve: serve}
}

// OpenAt is a route for everybody.
func OpenAt(pattern string, serve func(w http.ResponseWriter, r *http.Request) error) Route {
	return Route{Pattern: pattern, Serve: serve}
}

// Holds is what a route keeps those to who are held to a part of what their tenant has (identity.Held).
type Holds int

// What those are held to.
const (
	Label  Holds            = 1 << iota // it takes and shows jobs and batches with their label only, or none at all
	Policy                              // it starts nothing under another policy, or nothing at all
	Held   = Label | Policy             // both
)

// Holding is the route, which keeps callers to what.
func (r Route) Holding(what Holds) Route {
	r.Holds = what
	return r
}

// Admits says why the route is not for who; nil: it is.
func (r Route) Admits(who identity.Identity) error {
	switch {
	case who.Role < r.Role:
		return fmt.Errorf("%w: this is for a role of %s or above, and this token is a %s's", job.ErrRefused, r.Role, who.Role)
	case who.Held.Label != (identity.Label{}) && r.Holds&Label == 0:
		return fmt.Errorf("%w: this is not for a key that is held to a label, as %.40q is to %.200q", job.ErrRefused, who.Name, who.Held.Label)
	case who.Held.Policy != "" && r.Holds&Policy == 0:
		return fmt.Errorf("%w: this is not for a key that is held to a policy, as %.40q is to %q", job.ErrRefused, who.Name, who.Held.Policy)
	}
	return nil
}
