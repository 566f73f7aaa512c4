package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui"
)

// Pages require a sign-in. Its cookie is hidden from scripts and ends with the key.
func TestSignIn(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b := f.browser()
	resp, _ := b.get("/ui/batches?before=x")
	if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || to != "/ui/signin?to=%2Fui%2Fbatches%3Fbefore%3Dx" {
		t.Fatalf("without a key: %d %s", resp.StatusCode, to)
	}
	_, page := b.get("/ui/signin")
	resp, page2 := b.post("/ui/signin", url.Values{"form": {formOf(t, page)}, "key": {"mistaken"}})
	if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(page2, "is unknown") || strings.Contains(page2, "mistaken") {
		t.Fatalf("wrong key: %d %s", resp.StatusCode, page2)
	}
	resp, _ = b.post("/ui/signin", url.Values{"form": {formOf(t, page)}, "key": {" " + oneKey + "\n"}, "to": {"/ui/jobs"}})
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/ui/jobs" {
		t.Fatalf("right key: %d", resp.StatusCode)
	}
	c := resp.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/ui/" || strings.Contains(c.Value, oneKey) {
		t.Errorf("cookie %+v", c)
	}
	if page := b.page("/ui/jobs"); !strings.Contains(page, "submitter of") {
		t.Errorf("who: %.900s", page)
	}
	f.gate.revoked = true
	if resp, _ := b.get("/ui/jobs"); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("with a revoked key: %d", resp.StatusCode)
	}
	f.gate.revoked = false
	_, page = b.get("/ui/jobs")
	b.post("/ui/signout", url.Values{"form": {formOf(t, page)}})
	if resp, _ := b.get("/ui/jobs"); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("after signing out: %d", resp.StatusCode)
	}
}

// The sign-in page never redirects to other sites.
func TestSignInStaysHere(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, to := range []string{"https://evil.example/", "//evil.example/", "/ui/\\evil", "/\\evil.example", "javascript:alert(1)", "/v1/jobs"} {
		b := f.browser()
		_, page := b.get("/ui/signin?to=" + url.QueryEscape(to))
		resp, _ := b.post("/ui/signin", url.Values{"form": {formOf(t, page)}, "key": {oneKey}, "to": {to}})
		if got := resp.Header.Get("Location"); got != "/ui/" {
			t.Errorf("%q: sent to %q", to, got)
		}
	}
}

// A form is valid only in the visit that it was made for, and only if this page sends it.
func TestForms(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b, other := f.as(opKey), f.as(opKey)
	_, page := b.get("/ui/do/cordon?on=w1")
	_, others := other.get("/ui/do/cordon?on=w1")
	good := formOf(t, page)
	for name, c := range map[string]struct {
		form   string
		header []string
	}{
		"none":         {"", nil},
		"of another":   {formOf(t, others), nil},
		"made up":      {"AAAA", nil},
		"cross-site":   {good, []string{"Sec-Fetch-Site", "cross-site"}},
		"same-site":    {good, []string{"Sec-Fetch-Site", "same-site"}},
		"other origin": {good, []string{"Origin", "https://evil.example"}},
	} {
		if resp, body := b.post("/ui/do/cordon", url.Values{"form": {c.form}, "on": {"w1"}}, c.header...); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d %.300s", name, resp.StatusCode, body)
		}
	}
	if resp, _ := b.post("/ui/do/cordon", url.Values{"form": {good}, "on": {"w1"}}, "Origin", f.url, "Sec-Fetch-Site", "same-origin"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("our own: %d, want 404: there is no such worker", resp.StatusCode)
	}
}

// Headers of every page restrict it to its own origin and forbid inline scripts.
func TestHeaders(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b := f.as(opKey)
	for _, path := range []string{"/ui/batches", "/ui/signin", "/ui/none", "/ui/jobs/none", "/ui/assets/page.js", "/ui/assets/none"} {
		resp, body := b.get(path)
		csp := resp.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %q %v", path, csp, resp.Header)
		}
		if strings.HasPrefix(path, "/ui/assets/") {
			continue
		}
		if strings.Contains(body, "<style") || strings.Contains(body, "style=") || strings.Contains(body, " onclick") || strings.Contains(body, "<script>") {
			t.Errorf("%s has a style or a script in it", path)
		}
	}
}

// A fleet without tokens requires no sign-in, and forms are still bound to their visits.
func TestOpenFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *ui.Config) { c.Gate = identity.Open{} })
	b := f.browser()
	page := b.page("/ui/batches")
	if strings.Contains(page, "Sign out") {
		t.Error("there is something to sign out of")
	}
	if resp, _ := f.browser().post("/ui/do/cordon", url.Values{"form": {formOf(t, b.page("/ui/sessions"))}, "on": {"w"}}); resp.StatusCode != http.StatusForbidden {
		t.Errorf("another visit's form: %d", resp.StatusCode)
	}
}

// Browsers get the page at the root, and other clients get the API.
func TestRoot(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b := f.browser()
	if resp, _ := b.get("/", "Accept", "text/html,*/*"); resp.Header.Get("Location") != "/ui/" {
		t.Errorf("a browser: %d %v", resp.StatusCode, resp.Header)
	}
	if resp, _ := b.get("/", "Accept", "*/*"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("others: %d", resp.StatusCode)
	}
	if resp, _ := b.get("/healthz"); resp.StatusCode != http.StatusOK {
		t.Errorf("the API: %d", resp.StatusCode)
	}
}
