package registry

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/assay-run/assay/pkg/netrule"
)

// guard sends the requests of one pull. The owner of a registry controls their destinations through
// redirects and token realms. So guard only allows TLS and public addresses, except for hosts that
// the operator has listed.
type guard struct {
	list []registry
	next http.RoundTripper
	left atomic.Int64 // remaining bytes of all bodies
}

func newGuard(list []registry, most int64) (g *guard, done func()) {
	g = &guard{list: list}
	g.left.Store(most)
	transport := &http.Transport{
		DialContext: g.dial, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 10,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: 30 * time.Second,
	}
	g.next = transport
	return g, transport.CloseIdleConnections
}

func (g *guard) listed(host string, plain bool) bool {
	return slices.ContainsFunc(g.list, func(r registry) bool { return r.host == host && (r.plain || !plain) })
}

// RoundTrip sends a request if its destination is allowed.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !(req.URL.Scheme == "http" && g.listed(hostPort(req.URL), true)) {
		return nil, refusal("its registry redirects to a server without TLS, which the operator of this worker does not allow")
	}
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{resp.Body, &g.left}
	return resp, nil
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	own := g.listed(strings.ToLower(address), false)
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		block, special := netrule.Special(at.Addr().Unmap())
		if special && (!own || block.Kind == "metadata") || at.Addr().Zone() != "" {
			return refusal("its registry has or redirects to a private address, which the operator of this worker does not allow")
		}
		return nil
	}
	return dialer.DialContext(ctx, network, address)
}

// boundedBody is the body of a response.
type boundedBody struct {
	io.ReadCloser
	left *atomic.Int64
}

// Read fails when all bodies together exceed the limit of an image.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left.Add(-int64(n)) < 0 {
		return 0, errSize
	}
	return n, err
}
