package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/httpapi"
	"github.com/assay-run/assay/internal/identity"
)

// No route of a fleet answers pages of other sites, by whatever headers and names they come.
func TestNoRouteAnswersForeignPages(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ask := func(method, path, host string, header ...string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if r.Host = host; host == "" {
			r.Host = r.URL.Host
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	patterns := []string{"POST /mcp", "GET /metrics"}
	for _, rt := range httpapi.Routes() {
		patterns = append(patterns, rt.Pattern)
	}
	for _, pattern := range patterns {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{", "", "}", "", "...", "").Replace(path)
		if got := ask(method, path, "rebound.evil.example"); got != http.StatusForbidden {
			t.Errorf("%s by another name: %d", pattern, got)
		}
		if method == http.MethodGet || method == http.MethodHead {
			continue // answers of these are kept from other sites by browsers
		}
		for name, header := range map[string][]string{
			"Origin": {"Origin", "https://evil.example"}, "null origin": {"Origin", "null"}, "cross-site": {"Sec-Fetch-Site", "cross-site"},
			"same-site": {"Sec-Fetch-Site", "same-site"}, "both": {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Content-Type", ""},
		} {
			if got := ask(method, path, "", header...); got != http.StatusForbidden {
				t.Errorf("%s, %s: %d", pattern, name, got)
			}
		}
	}
}

// Bodies need a Content-Type: those without one are sent by pages of other sites without asking.
func TestBodiesNeedAType(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *parts) { c.Auth = identity.Open{} })
	for _, path := range []string{"/v1/run", "/v1/jobs", "/v1/keys", "/v1/admin/pause", "/v1/sessions", "/v1/uploads", "/v1/jobs/cancel"} {
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
			if resp, body := f.do("POST", path, `{"tenant":"default","reason":"x"}`, "Content-Type", kind); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, "application/json") {
				t.Errorf("%s with %q: %d %.200s", path, kind, resp.StatusCode, body)
			}
		}
	}
}
