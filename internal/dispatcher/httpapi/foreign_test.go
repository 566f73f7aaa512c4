package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/dropin"
	"github.com/assay-run/assay/internal/dispatcher/identity"
)

// withEverything enables every route of a server, for everyone.
func withEverything(c *parts) {
	c.Auth, c.DropIns = identity.Open{}, dropin.Names()
	c.Metrics, c.Profiles = http.NotFoundHandler(), http.NotFoundHandler()
}

// addresses returns methods and paths of every route and of unknown ones.
func (f *fleet) addresses() (all [][2]string) {
	for _, pattern := range append(f.served, "GET /nowhere", "POST /", "POST /v1/nowhere") {
		method, path, _ := strings.Cut(pattern, " ")
		all = append(all, [2]string{method, strings.NewReplacer("{", "", "}", "", "...", "").Replace(path)})
	}
	return all
}

// status sends a request and returns the response's status and text. A header Host sets the server's name.
func (f *fleet) status(method, path, body string, header ...string) (int, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if resp.StatusCode >= 300 { // others may be streams
		_ = resp.Write(&text)
	}
	return resp.StatusCode, text.String()
}

// No route serves requests from pages of other sites, under any headers and host names.
func TestNoRouteAnswersForeignPages(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withEverything)
	own := strings.TrimPrefix(f.url, "http://")
	foreign := map[string][]string{
		"another name": {"Host", "rebound.evil.example"}, "a forwarded name": {"Host", "rebound.evil.example:80", "X-Forwarded-Host", own, "Forwarded", "host=" + own},
		"an upper-case name": {"Host", "EVIL.EXAMPLE."}, "a name like ours": {"Host", "localhost.evil.example"}, "a rebound page": {"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"},
		"Origin": {"Origin", "https://evil.example"}, "null origin": {"Origin", "null"}, "cross-site": {"Sec-Fetch-Site", "cross-site"}, "same-site": {"Sec-Fetch-Site", "same-site"},
		"everything": {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "X-Forwarded-Host", "evil.example"}, "a WebSocket": {"Origin", "https://evil.example", "Connection", "Upgrade", "Upgrade", "websocket"},
	}
	for _, a := range f.addresses() {
		for name, header := range foreign {
			if a[1] == "/v1/links/token" && name != "another name" && !strings.Contains(name, "name") && name != "a rebound page" {
				continue // which other sites may embed
			}
			if status, text := f.status(a[0], a[1], "{}", append(header, "Content-Type", "application/json")...); status != http.StatusForbidden || !strings.Contains(text, "application/problem+json") {
				t.Errorf("%s %s, %s: %d %.300s", a[0], a[1], name, status, text)
			}
		}
		for name, header := range map[string][]string{"no browser": {}, "its page": {"Origin", f.url, "Sec-Fetch-Site", "same-origin"}, "localhost": {"Host", "LocalHost.:8080"}, "IPv6": {"Host", "[::1]:8080", "X-Forwarded-Host", "evil.example"}} {
			if status, text := f.status(a[0], a[1], "", header...); status == http.StatusForbidden {
				t.Errorf("%s %s, %s: %d %.300s", a[0], a[1], name, status, text)
			}
		}
	}
}

// No route accepts a body that a page of another site can send without a preflight.
func TestBodiesNeedAType(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withEverything)
	job := python("1")
	for _, a := range f.addresses() {
		if a[0] != http.MethodPost || strings.HasPrefix(a[1], "/v1/nowhere") || a[1] == "/" {
			continue
		}
		for _, kind := range []string{"", "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain; a=application/json", ";"} {
			status, text := f.status(a[0], a[1], job, "Content-Type", kind)
			if status < 400 || status >= 500 || !strings.Contains(text, "application/json, or") {
				t.Errorf("%s with %q: %d %.300s", a[1], kind, status, text)
			}
		}
	}
	if status, text := f.status("PUT", "/v1/uploads/"+unknownID+"/chunks/0", job+"\n"); status != http.StatusUnprocessableEntity || !strings.Contains(text, "x-ndjson") {
		t.Errorf("a chunk without a type: %d %.300s", status, text)
	}
	f.empty()
}

// unknownID belongs to no object.
const unknownID = "01a1fbae-e621-7000-8673-41b7c23dc507"
