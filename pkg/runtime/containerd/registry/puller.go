package registry

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
)

// Puller is the state of one pull: allowed destinations, credentials by host, and the limit of
// received data.
type Puller struct {
	resolver remotes.Resolver
	logins   map[string]login
	size     *size
	done     func()
}

// Puller returns a puller for ref, which Lists must accept. Fetched data is read from store, with
// the given limit for both packed and unpacked bytes. The caller closes it and uses Refused for
// errors shown to tenants.
func (a *Access) Puller(ref string, store content.Provider, most int64) (*Puller, error) {
	from, ok := registryOf(a.list, ref)
	if !ok {
		return nil, refusal("this worker does not pull from its registry")
	}
	logins, err := a.logins(ref)
	if err != nil {
		return nil, err
	}
	g, done := newGuard(a.all(), most+manifestMost)
	return &Puller{resolver(from, a.of(ref), logins, g), logins, &size{store: store, most: most}, done}, nil
}

// Resolver returns a resolver that fetches from mirrors, then from the registry itself.
func (p *Puller) Resolver() remotes.Resolver { return p.resolver }

// Count returns h with all of its data counted. It fails above the limit.
func (p *Puller) Count(h images.Handler) images.Handler { return p.size.wrap(h) }

// Size returns the image's compressed size after the pull.
func (p *Puller) Size() int64 {
	p.size.mu.Lock()
	defer p.size.mu.Unlock()
	return p.size.declared
}

// Judge converts an error of the pull to one about the operator's credentials if a registry
// rejected some. The operator must fix these, not the job's author.
func (p *Puller) Judge(err error) error {
	if isUnauthorized(err) && someOf(p.logins) {
		return fmt.Errorf("%w: %w", errNotTaken, err)
	}
	return err
}

// Close closes the connections.
func (p *Puller) Close() { p.done() }

// someOf reports whether any host has credentials.
func someOf(logins map[string]login) bool {
	for _, l := range logins {
		if l.secret != "" {
			return true
		}
	}
	return false
}

// resolver returns a resolver that fetches from mirrors, then from r, only at destinations that g
// allows. Each host gets its own credentials.
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
