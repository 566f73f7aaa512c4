package identity

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/site"
)

// Local identifies users of this machine by their Unix user ids, without a token. The kernel reports the user of a
// loopback connection, so other users and machines are rejected. Browsers are rejected, too: a page's requests have
// the user's id, but the page's author wrote them.
type Local map[int]Identity

// LocalAdmin is the identity of the user who runs a fleet without tokens.
var LocalAdmin = Identity{Tenant: DefaultTenant, Role: Admin, Name: DefaultTenant}

// Identify implements Gate.
func (l Local) Identify(r *http.Request) (Identity, error) {
	if r.Header.Get("Authorization") != "" {
		return Identity{}, foreignToken("the token is unknown here")
	}
	if isBrowser(r.Header) {
		return Identity{}, foreignToken("browsers need a token; sign in at /ui/")
	}
	if isForwarded(r.Header) {
		return Identity{}, foreignToken("requests that a proxy has forwarded need a token")
	}
	if err := site.CheckHost(r.Host, ""); err != nil {
		return Identity{}, err
	}
	p, ok := r.Context().Value(peerKey{}).(*peer)
	if !ok {
		return Identity{}, foreignToken(noToken)
	}
	uid, err := p.uid()
	if err != nil {
		return Identity{}, foreignToken(noToken)
	}
	who, ok := l[uid]
	if !ok {
		return Identity{}, foreignToken(noToken + "; only the fleet's own user needs none, on this machine")
	}
	return who, nil
}

// isBrowser reports whether headers are a browser's. Browsers that omit Sec-Fetch-* still send Origin with requests
// that change data, and name themselves.
func isBrowser(h http.Header) bool {
	for name := range h {
		if name == "Origin" || name == "Referer" || name == "Cookie" || strings.HasPrefix(name, "Sec-") {
			return true
		}
	}
	return strings.HasPrefix(h.Get("User-Agent"), "Mozilla/")
}

// isForwarded reports whether a proxy forwarded the request, so that its sender does not own the connection.
func isForwarded(h http.Header) bool {
	for name := range h {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

type peerKey struct{}

// peer is the other end of a connection. Its user is looked up once.
type peer struct {
	conn net.Conn
	once sync.Once
	id   int
	err  error
}

// WithPeer returns the context of a connection's requests.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{conn: c})
}

// uid returns the user of the other end. It returns an error unless the connection is over loopback.
func (p *peer) uid() (int, error) {
	p.once.Do(func() {
		local, ok := p.conn.LocalAddr().(*net.TCPAddr)
		remote, too := p.conn.RemoteAddr().(*net.TCPAddr)
		if !ok || !too || !local.IP.IsLoopback() || !remote.IP.IsLoopback() {
			p.err = fmt.Errorf("%w: not a connection over loopback", api.ErrUnauthorized)
			return
		}
		p.id, p.err = userOf(remote.AddrPort(), local.AddrPort())
	})
	return p.id, p.err
}
