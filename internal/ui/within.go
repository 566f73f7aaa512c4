package ui

import (
	"context"
	"net/http"

	"github.com/assay-run/assay/internal/identity"
)

type vouchedKey struct{}

// vouched returns ctx, in which calls of the API are made by who signed in at an issuer: such a visitor has no token that
// the API could be called with.
func vouched(ctx context.Context, who identity.Identity) context.Context {
	return context.WithValue(ctx, vouchedKey{}, who)
}

// Within returns the gate for an API whose page has people sign in at an issuer. What comes from outside has nothing of
// that in its context, and goes through g.
func Within(g identity.Gate) identity.Gate { return within{g} }

type within struct{ identity.Gate }

// Identify returns who the page says that it is, or whom the gate knows.
func (w within) Identify(r *http.Request) (identity.Identity, error) {
	if who, ok := r.Context().Value(vouchedKey{}).(identity.Identity); ok {
		return who, nil
	}
	return w.Gate.Identify(r)
}
