package ui

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
)

// begunName is the cookie of a sign-in at an issuer in progress.
const begunName = "assay_begun"

type signinPage struct {
	To, Wrong string
	Issuer    bool
}

func (s *Server) signin(v *visit) error {
	if v.who.Role > 0 {
		return v.to(back(v.r.URL.Query().Get("to")))
	}
	return v.show("signin", "Sign in", false, s.signinPage(v, ""))
}

func (s *Server) signinPage(v *visit, wrong string) signinPage {
	return signinPage{To: back(v.r.FormValue("to")), Wrong: wrong, Issuer: s.Issuer != nil}
}

// signIn accepts a key or the code of a link. The visit gets a new id, so that an id known to an attacker is useless.
func (s *Server) signIn(v *visit) error {
	token := strings.TrimSpace(v.r.PostForm.Get("key"))
	if code := v.r.PostForm.Get("code"); code != "" {
		var ok bool
		if token, ok = s.codes.take(code, s.Now()); !ok {
			return v.showAs(http.StatusUnauthorized, "signin", "Sign in", false, s.signinPage(v, "This link has been used, or is too old. Enter your key."))
		}
	}
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return v.showAs(http.StatusUnauthorized, "signin", "Sign in", false, s.signinPage(v, "Enter your key."))
	}
	who, err := s.identifyToken(v.r, token)
	if errors.Is(err, api.ErrUnauthorized) {
		return v.showAs(http.StatusUnauthorized, "signin", "Sign in", false, s.signinPage(v, "This key is unknown, or it has expired."))
	}
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	v.visitCookie = visitCookie{ID: rand.Text(), Token: token}
	if err := v.keep(); err != nil {
		return err
	}
	v.who = who
	return v.to(back(v.r.PostForm.Get("to")))
}

func (s *Server) signOut(v *visit) error {
	http.SetCookie(v.w, v.cookie(cookieName, "", -1))
	return v.to("/ui/signin")
}

// begun is the state of a sign-in at the issuer.
type begun struct {
	Attempt json.RawMessage `json:"a"`
	To      string          `json:"t"`
}

// oidcBegin redirects to the issuer.
func (s *Server) oidcBegin(v *visit) error {
	if s.Issuer == nil {
		return errNoPage
	}
	location, attempt, err := s.Issuer.Begin(v.r.Context())
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	text, err := s.seals.Seal("oidc", begun{attempt, back(v.r.URL.Query().Get("to"))}, 10*time.Minute)
	if err != nil {
		return err
	}
	http.SetCookie(v.w, v.cookie(begunName, text, 600))
	http.Redirect(v.w, v.r, location, http.StatusSeeOther)
	return nil
}

// oidcFinish signs in the person that the issuer identifies, until the identity expires.
func (s *Server) oidcFinish(v *visit) error {
	if s.Issuer == nil {
		return errNoPage
	}
	var b begun
	c, err := v.r.Cookie(begunName)
	if err != nil || s.seals.Open("oidc", c.Value, &b) != nil {
		return v.showAs(http.StatusUnauthorized, "signin", "Sign in", false, s.signinPage(v, "The sign-in took too long, or began in another browser. Try again."))
	}
	http.SetCookie(v.w, v.cookie(begunName, "", -1))
	q := v.r.URL.Query()
	who, until, err := s.Issuer.Finish(v.r.Context(), b.Attempt, q.Get("state"), q.Get("code"))
	if err != nil {
		s.Log.WarnContext(v.r.Context(), "sign-in rejected", "error", err)
		return v.showAs(http.StatusUnauthorized, "signin", "Sign in", false, s.signinPage(v, api.NewProblem(err).Detail))
	}
	v.visitCookie = visitCookie{ID: rand.Text(), Who: &who, Until: until}
	if err := v.keep(); err != nil {
		return err
	}
	return v.to(b.To)
}
