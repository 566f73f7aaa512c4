// Package site rejects requests that a browser sends for pages of other sites, and requests for a host name that is
// not the server's.
package site

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Guard decides which requests of browsers reach a server. Its zero value accepts every name in Host and rejects
// cross-origin requests.
type Guard struct {
	// Local rejects names in Host other than localhost and Public. It is for servers that admit users of their
	// machine without a token. A page may point its own name to this machine (DNS rebinding): it then has the same
	// origin as the server, and sends that name.
	Local bool
	// Public is a name that Local accepts as well; "" for none.
	Public string
	// Shared is the prefix of paths that pages of other sites may embed; "" for none.
	Shared string
}

// Check returns job.ErrRefused for a request that must not be served. X-Forwarded-Host and Forwarded have no
// influence: every client can send them.
func (g *Guard) Check(r *http.Request) error {
	if g.Local {
		if err := CheckHost(r.Host, g.Public); err != nil {
			return err
		}
	}
	if foreign(r) && !(g.Shared != "" && isSafe(r.Method) && strings.HasPrefix(r.URL.Path, g.Shared)) {
		return fmt.Errorf("%w: pages of other sites may not use this fleet", job.ErrRefused)
	}
	return nil
}

// Wrap returns a handler that answers 403 to the requests that Check rejects.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var crossOrigin = http.NewCrossOriginProtection()

// foreign reports whether a page of another site sent r. Readers may follow links from there: safe navigations are
// not foreign.
func foreign(r *http.Request) bool {
	origin, fetch := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	if origin != "" && r.Host == "" {
		return true // no browser sends this, and the comparison below takes null for an empty Host
	}
	if isSafe(r.Method) && fetch != "" && origin == "" && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		return false
	}
	change := *r // reads count as changes, because a WebSocket starts with GET
	change.Method = http.MethodPost
	return crossOrigin.Check(&change) != nil
}

// isSafe reports whether requests of a method change no data.
func isSafe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// CheckHost rejects a name in Host other than localhost and public, with job.ErrRefused. It accepts addresses,
// because a browser's page from elsewhere has another origin. Requests of a process to itself have no Host.
func CheckHost(host, public string) error {
	name, bare := host, strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if h, _, err := net.SplitHostPort(host); err == nil {
		name, bare = h, h
	}
	if _, err := netip.ParseAddr(bare); err == nil || host == "" {
		return nil
	}
	if name = plain(name); name == "localhost" || public != "" && name == plain(public) {
		return nil
	}
	return fmt.Errorf("%w: Host %.80q is not an address of this fleet; use an address or localhost, or start the fleet with --public-url (ASSAY_PUBLIC_URL)", job.ErrRefused, host)
}

// plain returns a host name as names are compared.
func plain(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }
