package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

// SignIn signs users in at the issuer with a browser: by an authorization code, with PKCE.
type SignIn struct {
	gate             *Gate
	id, secret, back string
}

// CallbackPath is the path to which the issuer sends browsers back, below the public address of the
// fleet.
const CallbackPath = "/ui/signin/callback"

// NewSignIn returns a SignIn for the issuer of g with a client ID. Without a client secret, the
// issuer relies on PKCE alone. public is the address of the fleet for browsers. The error wraps
// job.ErrInvalid.
func NewSignIn(g *Gate, id, secret, public string) (*SignIn, error) {
	u, err := url.Parse(public)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !local(u.Hostname())) {
		return nil, job.Invalid("public-url", "%.100q must be the address of this fleet as browsers have it, such as https://assay.example.com", public)
	}
	if id == "" {
		return nil, job.Invalid("oidc-client-id", "must not be empty")
	}
	return &SignIn{gate: g, id: id, secret: secret, back: strings.TrimSuffix(public, "/") + CallbackPath}, nil
}

// Attempt is the state between the two halves of a sign-in. Only the browser that began it may hold
// it.
type Attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Begin returns the address for the browser and the state to keep until it comes back. The error
// wraps job.ErrUnavailable if the issuer does not answer.
func (s *SignIn) Begin(ctx context.Context) (address string, a Attempt, err error) {
	c, err := s.client(ctx)
	if err != nil {
		return "", a, err
	}
	a = Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return c.AuthCodeURL(a.State, oauth2.S256ChallengeOption(a.Verifier), oauth2.SetAuthURLParam("nonce", a.Nonce)), a, nil
}

// Finish returns the user who came back with a state and a code, and the expiry of the issuer's
// statement.
func (s *SignIn) Finish(ctx context.Context, a Attempt, state, code string) (who identity.Identity, until time.Time, err error) {
	if a.State == "" || subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) != 1 {
		return who, until, unauthorized("the sign-in began in another browser, or was restarted; sign in again")
	}
	c, err := s.client(ctx)
	if err != nil {
		return who, until, err
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, s.gate.issuer.http), askTime)
	defer cancel()
	given, err := c.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return who, until, exchangeFailed(ctx, err)
	}
	token, _ := given.Extra("id_token").(string)
	said, err := s.gate.verify(ctx, token, []string{s.id})
	if err != nil {
		return who, until, err
	}
	if subtle.ConstantTimeCompare([]byte(a.Nonce), []byte(said.Nonce)) != 1 {
		return who, until, unauthorized("it belongs to another sign-in (nonce)")
	}
	who, err = s.gate.identity(said)
	return who, said.Expiry.Time(), err
}

// exchangeFailed distinguishes a rejected code from an issuer that is not available.
func exchangeFailed(ctx context.Context, err error) error {
	slog.WarnContext(ctx, "sign-in code not exchanged by the token issuer", "error", err)
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < http.StatusInternalServerError {
		return unauthorized("the issuer rejected the code of this sign-in; sign in again")
	}
	return fmt.Errorf("%w: the issuer does not answer; sign in again", job.ErrUnavailable)
}

func (s *SignIn) client(ctx context.Context) (*oauth2.Config, error) {
	about, err := s.gate.issuer.describe(ctx)
	if err != nil {
		slog.WarnContext(ctx, "configuration of the token issuer not available", "error", err)
		return nil, fmt.Errorf("%w: the configuration of the issuer %s is not available; try again later", job.ErrUnavailable, s.gate.c.Issuer)
	}
	return &oauth2.Config{
		ClientID: s.id, ClientSecret: s.secret, RedirectURL: s.back, Scopes: []string{"openid", "email", "profile"},
		Endpoint: oauth2.Endpoint{AuthURL: about.Authorization, TokenURL: about.Token},
	}, nil
}
