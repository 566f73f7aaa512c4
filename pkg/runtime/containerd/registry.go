package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/distribution/reference"

	"github.com/assay-run/assay/pkg/netrule"
)

// registry is an entry of Config.ImageRegistries.
type registry struct {
	name  string // host[:port][/path], as references of images begin
	host  string // host:port that is dialled
	plain bool   // without TLS
}

// parseRegistries reads the registries that images may be pulled from: host[:port],
// with the beginning of a path if not all of it, and http:// before it if it has no TLS.
func parseRegistries(entries []string) (out []registry, err error) {
	for _, entry := range entries {
		name, plain := strings.CutPrefix(entry, "http://")
		if !plain {
			name = strings.TrimPrefix(name, "https://")
		}
		name = strings.TrimSuffix(name, "/")
		named, err := reference.ParseNamed(name + "/x")
		if err != nil || named.Name() != name+"/x" {
			return nil, fmt.Errorf("%.200q is no registry, such as docker.io, ghcr.io/ours or http://127.0.0.1:5000", entry)
		}
		r := registry{name: name, plain: plain}
		if r.host, err = dialled(reference.Domain(named), plain); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// dialled returns the host and port of a registry's API.
func dialled(domain string, plain bool) (string, error) {
	host, err := docker.DefaultHost(domain) // docker.io's has another name
	if err != nil {
		return "", err
	}
	scheme := "https"
	if plain {
		scheme = "http"
	}
	u, err := url.Parse(scheme + "://" + host)
	if err != nil {
		return "", fmt.Errorf("%.200q is no registry: %w", domain, err)
	}
	return hostPort(u), nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// registryOf returns the entry that lets ref be pulled.
func registryOf(list []registry, ref string) (registry, bool) {
	i := slices.IndexFunc(list, func(r registry) bool { return strings.HasPrefix(ref, r.name+"/") })
	if i < 0 {
		return registry{}, false
	}
	return list[i], true
}

// refusal says why this worker does not pull an image. It is all that a tenant reads.
type refusal string

func (r refusal) Error() string { return string(r) }

// guard is the way to registries for one pull. Where requests go is up to whoever
// runs the registry, by redirects and by the realms of its tokens. So all of them
// pass here: with TLS, to public addresses, unless the operator has listed the host.
type guard struct {
	list []registry
	next http.RoundTripper
	left atomic.Int64 // bytes of all bodies together
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

// RoundTrip sends a request if it may go where it is for.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !(req.URL.Scheme == "http" && g.listed(hostPort(req.URL), true)) {
		return nil, refusal("its registry leads to a place without TLS, which the operator of this worker has not allowed")
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
			return refusal("its registry leads to an address that is not public, which the operator of this worker has not allowed")
		}
		return nil
	}
	return dialer.DialContext(ctx, network, address)
}

// boundedBody is the body of an answer.
type boundedBody struct {
	io.ReadCloser
	left *atomic.Int64
}

// Read fails once all bodies together are larger than an image may be.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left.Add(-int64(n)) < 0 {
		return 0, errImageSize
	}
	return n, err
}

// authority is the host of r's API as requests name it.
func (r registry) authority() string {
	domain, _, _ := strings.Cut(r.name, "/")
	host, err := docker.DefaultHost(domain)
	if err != nil {
		return domain
	}
	return host
}

func (r registry) scheme() string {
	if r.plain {
		return "http"
	}
	return "https"
}

// resolver returns what fetches from mirrors, then from r, and nowhere that g does not
// go. Each host is told its own of logins.
func resolver(r registry, mirrors []mirror, logins map[string]login, g *guard) remotes.Resolver {
	c := &http.Client{Transport: g}
	auth := docker.NewDockerAuthorizer(docker.WithAuthClient(c), docker.WithAuthCreds(func(host string) (string, string, error) {
		l := logins[host]
		return l.user, l.secret, nil
	}))
	at := func(r registry, host, path string) docker.RegistryHost {
		return docker.RegistryHost{
			Client: c, Host: host, Scheme: r.scheme(), Path: path, Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
			Authorizer: auth,
		}
	}
	return docker.NewResolver(docker.ResolverOptions{Hosts: func(domain string) (hosts []docker.RegistryHost, err error) {
		host, err := docker.DefaultHost(domain)
		if err != nil {
			return nil, err
		}
		for _, m := range mirrors {
			_, below, _ := strings.Cut(m.name, "/")
			hosts = append(hosts, at(m.registry, m.authority(), strings.TrimSuffix("/v2/"+below, "/")))
		}
		return append(hosts, at(r, host, "/v2")), nil
	}})
}

// pullKind is what a tenant reads about a registry that could not be used now.
func pullKind(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var t interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout():
		return "its registry did not answer in time"
	case errors.As(err, &dns):
		return "its registry could not be looked up"
	case errors.As(err, &op):
		return "its registry is unreachable"
	}
	return "its registry gave no usable answer"
}
