package ui

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

const (
	cookieName = "assay_visit"
	saidName   = "assay_said"
	purpose    = "visit"
	// visitTTL is how long a visitor stays signed in.
	visitTTL = 12 * time.Hour
	// maxForm is the largest form, which has code for a session.
	maxForm = 1<<20 + 64<<10
	// patience limits the API calls for one page.
	patience = 20 * time.Second
)

// errNoPage is the error of an address without a page.
var errNoPage = fmt.Errorf("%w: the page does not exist", job.ErrNotFound)

// errForm is the error of a form that another site may have sent.
var errForm = fmt.Errorf("%w: this form is from another visit, or too old: go back, load the page again, and send the form again", job.ErrRefused)

// visitCookie is the content of a visit's cookie. Token is the visitor's key. The cookie is sealed, so that a stolen cookie
// does not reveal the key. Each request checks the key, so that the visit ends with it. The field Who is an identity
// from an issuer, valid until Until.
type visitCookie struct {
	ID    string             `json:"i"`
	Token string             `json:"t,omitempty"`
	Who   *identity.Identity `json:"w,omitempty"`
	Until time.Time          `json:"u,omitzero"`
}

// visit is one request of a visitor.
type visit struct {
	s   *Server
	w   http.ResponseWriter
	r   *http.Request
	who identity.Identity
	visitCookie
	fresh bool // the request had no valid cookie
}

// serveVisitor serves a route to visitors with its role.
func (s *Server) serveVisitor(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		v := &visit{s: s, w: w, r: r}
		v.read()
		ctx, cancel := r.Context(), context.CancelFunc(func() {})
		if !rt.streams && !rt.slow {
			ctx, cancel = context.WithTimeout(ctx, patience)
		}
		defer cancel()
		v.r = r.WithContext(ctx)
		defer v.recovered()
		if err := v.serve(rt); err != nil {
			v.fail(err)
		}
	}
}

func (v *visit) serve(rt route) error {
	if err := v.identify(rt.role); err != nil {
		return err
	}
	if v.r.Method == http.MethodPost {
		if err := v.ownForm(); err != nil {
			return err
		}
		defer v.s.keeps.forget()
	}
	return rt.serve(v)
}

// harden sets headers that restrict pages to their own origin.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")
}

// read reads the visit's cookie. Without a valid one, it starts a new visit.
func (v *visit) read() {
	if c, err := v.r.Cookie(cookieName); err == nil && v.s.seals.Open(purpose, c.Value, &v.visitCookie) == nil && v.ID != "" {
		return
	}
	v.visitCookie, v.fresh = visitCookie{ID: rand.Text()}, true
}

// keep sets the visit's cookie.
func (v *visit) keep() error {
	text, err := v.s.seals.Seal(purpose, v.visitCookie, visitTTL)
	if err != nil {
		return err
	}
	if len(text) > 3800 {
		return job.Invalid("token", "has too many bytes for a cookie: at most about 2,700")
	}
	http.SetCookie(v.w, v.cookie(cookieName, text, int(visitTTL.Seconds())))
	v.fresh = false
	return nil
}

// cookie returns a cookie that scripts cannot read and that browsers do not send with other sites' forms.
func (v *visit) cookie(name, value string, age int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/ui/", MaxAge: age, HttpOnly: true, Secure: v.s.Secure || v.r.TLS != nil, SameSite: http.SameSiteLaxMode}
}

// identify authenticates the visitor at each request and checks the role.
func (v *visit) identify(role identity.Role) error {
	who, err := v.currentIdentity()
	if err != nil {
		if role == identity.None {
			return nil
		}
		return err
	}
	if v.who = who; who.Role < role {
		return fmt.Errorf("%w: this page requires the role %s, and yours is %s", job.ErrRefused, role, who.Role)
	}
	return nil
}

// currentIdentity returns the signed-in identity.
func (v *visit) currentIdentity() (who identity.Identity, err error) {
	switch {
	case v.Who != nil && v.s.Now().Before(v.Until):
		v.r = v.r.WithContext(withIdentity(v.r.Context(), *v.Who))
		return *v.Who, nil
	case v.Who != nil, v.Token == "" && !v.s.open:
		return who, fmt.Errorf("%w: sign in", api.ErrUnauthorized)
	}
	return v.s.identifyToken(v.r, v.Token)
}

// identifyToken returns the identity of a token.
func (s *Server) identifyToken(r *http.Request, token string) (identity.Identity, error) {
	asked := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/ui/"}, Header: http.Header{}, Host: r.Host, RemoteAddr: r.RemoteAddr, TLS: r.TLS}
	if token != "" {
		asked.Header.Set("Authorization", "Bearer "+token)
	}
	return s.Gate.Identify(asked.WithContext(r.Context()))
}

// ownForm parses the form and rejects it unless a page of this visit sent it.
func (v *visit) ownForm() error {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return fmt.Errorf("%w: a form has at most %d bytes", job.ErrTooLarge, maxForm)
		}
		return job.Invalid("form", "cannot be read")
	}
	if v.fresh || !v.s.seals.FormOf(v.ID, v.r.PostForm.Get("form")) {
		return errForm
	}
	return nil
}

// api returns a Caller with the visitor's token.
func (v *visit) api() apiCaller {
	return apiCaller{API: v.s.API, Token: v.Token, From: v.r.RemoteAddr}
}

// to redirects the browser.
func (v *visit) to(path string) error {
	if v.part() {
		v.w.Header().Set("HX-Redirect", path)
		v.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// part reports whether the script requests only the changing part of a page.
func (v *visit) part() bool { return v.r.Header.Get("HX-Request") == "true" }

// say stores a message for the next page.
func (v *visit) say(text string) {
	if sealed, err := v.s.seals.Seal("said", text, time.Minute); err == nil && len(sealed) < 3000 {
		http.SetCookie(v.w, v.cookie(saidName, sealed, 60))
	}
}

// takeMessage returns the stored message and removes it.
func (v *visit) takeMessage() (text string) {
	c, err := v.r.Cookie(saidName)
	if err != nil || v.part() {
		return ""
	}
	http.SetCookie(v.w, v.cookie(saidName, "", -1))
	if v.s.seals.Open("said", c.Value, &text) != nil {
		return ""
	}
	return text
}

// id returns the {id} of the path.
func (v *visit) id() (job.ID, error) {
	id, err := job.ParseID(v.r.PathValue("id"))
	if err != nil {
		return "", fmt.Errorf("%w: %.40q is not an id", job.ErrNotFound, v.r.PathValue("id"))
	}
	return id, nil
}

// recovered renders an error page after a panic. It passes on http.ErrAbortHandler, which closes the connection.
func (v *visit) recovered() {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	v.fail(fmt.Errorf("panic: %v", p))
}

// back returns path if it is a path of this page, else the first page.
func back(path string) string {
	if !strings.HasPrefix(path, "/ui/") || strings.ContainsAny(path, "\\\r\n") {
		return "/ui/"
	}
	return path
}
