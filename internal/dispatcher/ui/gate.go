package ui

import (
	"context"
	"net/http"

	"github.com/assay-run/assay/internal/dispatcher/identity"
)

type identityKey struct{}

// withIdentity returns ctx with the identity of a visitor who signed in at an issuer. Such visitors have no token for calls
// of the API.
func withIdentity(ctx context.Context, who identity.Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

// AcceptVisitors returns a gate that also accepts identities from the web page. Only calls by the page have one in their
// context; other requests go through g.
func AcceptVisitors(g identity.Gate) identity.Gate { return visitorGate{g} }

type visitorGate struct{ identity.Gate }

// Identify returns the identity in the context of r or, without one, the gate's.
func (w visitorGate) Identify(r *http.Request) (identity.Identity, error) {
	if who, ok := r.Context().Value(identityKey{}).(identity.Identity); ok {
		return who, nil
	}
	return w.Gate.Identify(r)
}
