package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui"
	"github.com/assay-run/assay/internal/site"
)

// No page of a local fleet serves requests from pages of other sites, under any host names and headers. Links to it
// work.
func TestNoPageAnswersForeignPages(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *ui.Config) { c.Gate, c.Site = identity.Open{}, site.Guard{Local: true, Public: "assay.example"} })
	paths := []string{"GET /", "GET /ui", "GET /ui/assets/page.js", "POST /ui/signin/code", "POST /ui/nowhere", "GET /ui/nowhere"}
	for _, pattern := range ui.Patterns() {
		if method, path, ok := strings.Cut(pattern, " "); ok {
			paths = append(paths, method+" "+strings.NewReplacer("{$}", "", "...", "", "{", "", "}", "").Replace(path))
		}
	}
	ask := func(line string, header ...string) int {
		t.Helper()
		method, path, _ := strings.Cut(line, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(url.Values{"form": {"x"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
				r.Host = header[i+1]
			}
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for _, line := range paths {
		for name, header := range map[string][]string{
			"another name": {"Host", "rebound.evil.example"}, "in upper case": {"Host", "EVIL.EXAMPLE.:80"}, "a forwarded name": {"Host", "evil.example", "X-Forwarded-Host", "localhost"},
			"Origin": {"Origin", "https://evil.example"}, "null origin": {"Origin", "null"}, "a frame's script": {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
		} {
			if got := ask(line, header...); got != http.StatusForbidden {
				t.Errorf("%s, %s: %d", line, name, got)
			}
		}
		if strings.HasPrefix(line, "GET ") {
			for _, host := range []string{"localhost:1", "[::1]:8080", "Assay.Example."} {
				if got := ask(line, "Host", host, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"); got == http.StatusForbidden {
					t.Errorf("%s, a link to %s: %d", line, host, got)
				}
			}
		}
	}
}

// A code signs in once, and only holders of a token get one. A token in its place does not sign in, because other sites
// could put one into a link.
func TestSignInByCode(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := newFleet(t, func(c *ui.Config) { c.Now = func() time.Time { return now } })
	codeFor := func(want int, header ...string) string {
		t.Helper()
		resp, code := f.browser().post("/ui/signin/code", nil, header...)
		if resp.StatusCode != want {
			t.Fatalf("%q: %d %s, want %d", header, resp.StatusCode, code, want)
		}
		return code
	}
	try := func(code string) *browser {
		b := f.browser()
		_, page := b.get("/ui/signin")
		b.post("/ui/signin", url.Values{"form": {formOf(t, page)}, "code": {code}})
		return b
	}
	in := func(b *browser) bool { resp, _ := b.get("/ui/jobs"); return resp.StatusCode == http.StatusOK }
	codeFor(http.StatusUnauthorized)
	codeFor(http.StatusUnauthorized, "Authorization", "Bearer mistaken")
	codeFor(http.StatusForbidden, "Authorization", "Bearer "+oneKey, "Origin", "https://evil.example")
	code := codeFor(http.StatusCreated, "Authorization", "Bearer "+oneKey)
	for _, wrong := range []string{oneKey, code[1:], code + " ", strings.ToLower(code), "x"} {
		if in(try(wrong)) {
			t.Errorf("%q signs in", wrong)
		}
	}
	first := try(code)
	if !in(first) {
		t.Error("the code does not sign in")
	}
	if in(try(code)) {
		t.Error("the code signs in twice")
	}
	if !in(first) {
		t.Error("the first visit has ended")
	}
	old := codeFor(http.StatusCreated, "Authorization", "Bearer "+oneKey)
	if now = now.Add(13 * time.Hour); in(try(old)) {
		t.Error("an old code signs in")
	}
}
