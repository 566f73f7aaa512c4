package site_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/assay-run/assay/internal/site"
	"github.com/assay-run/assay/pkg/job"
)

func request(method, path, host string, header ...string) *http.Request {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// TestHosts checks that a local server accepts its address, localhost and its public name, in any spelling.
func TestHosts(t *testing.T) {
	t.Parallel()
	for host, accepted := range map[string]bool{
		"": true, "127.0.0.1": true, "127.0.0.1:8080": true, "192.0.2.7:80": true, "[::1]": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:1": true, "[2001:DB8::1]": true,
		"localhost": true, "localhost:8080": true, "LOCALHOST": true, "LocalHost.:80": true, "localhost.": true, "Assay.Example": true, "assay.example.:443": true,

		"evil.example": false, "evil.example:8080": false, "EVIL.example.": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"evil.localhost": false, "localhost..": false, "127.0.0.1.": false, "127.1": false, "0x7f.0.0.1": false, "2130706433": false, "[localhost]": false, "[[::1]]": false,
		"localhost:1:2": false, "localhost@evil.example": false, "assay.example.evil.example": false, "notassay.example": false, ".": false, ":8080": false, "localhost,evil.example": false,
		"[evil.example]:80": false, "ⓛocalhost": false, "localhost%00": false,
	} {
		if err := site.CheckHost(host, "ASSAY.example"); (err == nil) != accepted || err != nil && !errors.Is(err, job.ErrRefused) {
			t.Errorf("Host %q: %v", host, err)
		}
	}
	for _, host := range []string{"assay.example", "."} {
		if site.CheckHost(host, "") == nil {
			t.Errorf("Host %q is accepted without a public name", host)
		}
	}
	named, open := site.Guard{Local: true}, site.Guard{}
	r := request("GET", "/", "rebound.evil.example", "X-Forwarded-Host", "localhost", "Forwarded", "host=localhost")
	if err := named.Check(r); !errors.Is(err, job.ErrRefused) {
		t.Errorf("a forwarded name: %v", err)
	}
	if err := open.Check(r); err != nil {
		t.Errorf("a server that others reach by name: %v", err)
	}
	if err := named.Check(request("GET", "/", "localhost", "X-Forwarded-Host", "evil.example")); err != nil {
		t.Errorf("a forwarded name beside localhost: %v", err)
	}
}

// TestOrigins checks that pages of other sites send and read nothing, and that readers may follow links from them.
func TestOrigins(t *testing.T) {
	t.Parallel()
	const host = "127.0.0.1:8080"
	type headers []string
	everywhere := map[string]headers{
		"another origin": {"Origin", "https://evil.example"}, "null": {"Origin", "null"}, "another port": {"Origin", "http://127.0.0.1:1"}, "no port": {"Origin", "http://127.0.0.1"},
		"forwarded": {"Origin", "https://evil.example", "X-Forwarded-Host", "evil.example"}, "cross-site": {"Sec-Fetch-Site", "cross-site"}, "same-site": {"Sec-Fetch-Site", "same-site"},
		"an unknown site": {"Sec-Fetch-Site", "x"}, "both": {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, "own origin of another site": {"Origin", "http://" + host, "Sec-Fetch-Site", "cross-site"},
		"not an origin": {"Origin", "://"}, "a script": {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"},
		"a stream of events": {"Origin", "https://evil.example", "Accept", "text/event-stream", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
		"a WebSocket":        {"Origin", "https://evil.example", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-Fetch-Mode", "websocket", "Sec-Fetch-Site", "cross-site"},
		"an old WebSocket":   {"Origin", "https://evil.example", "Connection", "Upgrade", "Upgrade", "websocket"},
	}
	own := map[string]headers{"no browser": {}, "its page": {"Origin", "http://" + host, "Sec-Fetch-Site", "same-origin"}, "its old page": {"Origin", "http://" + host}, "an address that was typed": {"Sec-Fetch-Site", "none"}}
	var g site.Guard
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "QUERY"} {
		for name, h := range everywhere {
			if err := g.Check(request(method, "/v1/jobs", host, h...)); !errors.Is(err, job.ErrRefused) {
				t.Errorf("%s, %s: %v", method, name, err)
			}
		}
		for name, h := range own {
			if err := g.Check(request(method, "/v1/jobs", host, h...)); err != nil {
				t.Errorf("%s, %s: %v", method, name, err)
			}
		}
		link := request(method, "/ui/batches", host, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
		if err := g.Check(link); (err == nil) != (method == "GET" || method == "HEAD") {
			t.Errorf("%s, a link: %v", method, err)
		}
	}
	for _, h := range []headers{{"Origin", "null"}, {"Origin", "https://evil.example"}} {
		if g.Check(request("POST", "/", "", h...)) == nil || g.Check(request("GET", "/", "", h...)) == nil {
			t.Errorf("%v without a Host is accepted", h)
		}
	}
}

// TestShared checks that pages of other sites may embed shared paths.
func TestShared(t *testing.T) {
	t.Parallel()
	g := site.Guard{Shared: "/v1/links/"}
	image := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}
	for path, accepted := range map[string]bool{"/v1/links/x": true, "/v1/links": false, "/v1/jobs": false} {
		if err := g.Check(request("GET", path, "localhost", image...)); (err == nil) != accepted {
			t.Errorf("%s: %v", path, err)
		}
		if g.Check(request("POST", path, "localhost", image...)) == nil {
			t.Errorf("POST %s is accepted", path)
		}
	}
	code := func(h http.Handler, r *http.Request) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	if a, b := code(h, request("GET", "/", "localhost")), code(h, request("GET", "/", "localhost", image...)); a != 204 || b != 403 {
		t.Errorf("the handler answers %d and %d", a, b)
	}
}
