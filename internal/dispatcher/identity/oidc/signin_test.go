package oidc_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/identity/oidc"
	"github.com/assay-run/assay/pkg/job"
)

const public = "https://assay.example.com"

// browse follows a sign-in to the issuer and returns the parameters of the issuer's redirect.
func (f *fixture) browse(address string) url.Values {
	f.Helper()
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(address)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		f.Fatalf("%s: %v", resp.Status, err)
	}
	if !strings.HasPrefix(back.String(), public+oidc.CallbackPath+"?") {
		f.Fatalf("the browser is sent to %s", back)
	}
	return back.Query()
}

func TestSignInWithABrowser(t *testing.T) {
	f := start(t)
	s, err := oidc.NewSignIn(f.gate, "page", "secret", public+"/")
	if err != nil {
		t.Fatal(err)
	}
	begin := func() (oidc.Attempt, url.Values) {
		address, a, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return a, f.browse(address)
	}
	f.issuer.SignsIn(in("team-a", "email", "u@example.com"))
	a, back := begin()
	who, until, err := s.Finish(t.Context(), a, back.Get("state"), back.Get("code"))
	if who.Mark = ""; err != nil || who != (identity.Identity{Tenant: "a", Role: identity.Submitter, Name: "u@example.com"}) || until.IsZero() {
		t.Errorf("%+v until %v, %v", who, until, err)
	}
	if _, _, err := s.Finish(t.Context(), a, back.Get("state"), back.Get("code")); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("the same code again: %v", err)
	}
	other, _ := begin()
	a, back = begin()
	if _, _, err := s.Finish(t.Context(), other, back.Get("state"), back.Get("code")); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("another browser's state: %v", err)
	}
	if _, _, err := s.Finish(t.Context(), oidc.Attempt{}, "", back.Get("code")); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("a browser that never began: %v", err)
	}
	stolen := oidc.Attempt{State: back.Get("state"), Nonce: a.Nonce, Verifier: other.Verifier}
	if _, _, err := s.Finish(t.Context(), stolen, back.Get("state"), back.Get("code")); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("without the verifier: %v", err)
	}
	f.issuer.SignsIn(in("team-a", "nonce", "another"))
	a, back = begin()
	if _, _, err := s.Finish(t.Context(), a, back.Get("state"), back.Get("code")); !errors.Is(err, api.ErrUnauthorized) || !strings.Contains(err.Error(), "nonce") {
		t.Errorf("a token of another sign-in: %v", err)
	}
	f.issuer.SignsIn(in("nobody"))
	a, back = begin()
	if _, _, err := s.Finish(t.Context(), a, back.Get("state"), back.Get("code")); !errors.Is(err, job.ErrRefused) {
		t.Errorf("in no group: %v", err)
	}
	a, back = begin()
	f.issuer.Away.Store(true)
	if _, _, err := s.Finish(t.Context(), a, back.Get("state"), back.Get("code")); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("the issuer is away: %v", err)
	}
	for _, address := range []string{"", "assay.example.com", "http://assay.example.com"} {
		if _, err := oidc.NewSignIn(f.gate, "page", "", address); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
