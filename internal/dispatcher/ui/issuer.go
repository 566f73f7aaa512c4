package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
)

// SignIn signs people in at an issuer. A is the state between Begin and Finish.
type SignIn[A any] interface {
	Begin(ctx context.Context) (address string, attempt A, err error)
	Finish(ctx context.Context, attempt A, state, code string) (who identity.Identity, until time.Time, err error)
}

// IssuerOf adapts s to Issuer.
func IssuerOf[A any](s SignIn[A]) Issuer { return issuer[A]{s} }

type issuer[A any] struct{ signIn SignIn[A] }

func (i issuer[A]) Begin(ctx context.Context) (location string, attempt json.RawMessage, err error) {
	location, a, err := i.signIn.Begin(ctx)
	if err != nil {
		return "", nil, err
	}
	attempt, err = json.Marshal(a)
	return location, attempt, err
}

func (i issuer[A]) Finish(ctx context.Context, attempt json.RawMessage, state, code string) (who identity.Identity, until time.Time, err error) {
	var a A
	if err := json.Unmarshal(attempt, &a); err != nil {
		return who, until, fmt.Errorf("%w: the state of the sign-in cannot be read", api.ErrUnauthorized)
	}
	return i.signIn.Finish(ctx, a, state, code)
}
