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

// Puller is what one pull of an image needs: where its requests may go, what they tell whom,
// and how much may come back.
type Puller struct {
	resolver remotes.Resolver
	logins   map[string]login
	size     *size
	done     func()
}

// Puller returns what pulls ref, which Lists. What is fetched is found in store, and is at
// most so many bytes, packed and unpacked. The caller closes it, and has Refused say what a
// tenant may read of an error.
func (a *Access) Puller(ref string, store content.Provider, most int64) (*Puller, error) {
	from, ok := registryOf(a.list, ref)
	if !ok {
		return nil, refusal("its registry is none that this worker pulls from")
	}
	logins, err := a.logins(ref)
	if err != nil {
		return nil, err
	}
	g, done := newGuard(a.all(), most+manifestMost)
	return &Puller{resolver(from, a.of(ref), logins, g), logins, &size{store: store, most: most}, done}, nil
}

// Resolver fetches from mirrors, then from the registry itself.
func (p *Puller) Resolver() remotes.Resolver { return p.resolver }

// Count returns h with everything counted that it handles. It fails if that is more than
// may come.
func (p *Puller) Count(h images.Handler) images.Handler { return p.size.wrap(h) }

// Size is how many compressed bytes the image has, once it is pulled.
func (p *Puller) Size() int64 {
	p.size.mu.Lock()
	defer p.size.mu.Unlock()
	return p.size.declared
}

// Judge returns an error of the pull, as one about the operator's credentials if a registry
// was told some and let nobody in: that is the operator's to mend, not the job's.
func (p *Puller) Judge(err error) error {
	if notLetIn(err) && someOf(p.logins) {
		return fmt.Errorf("%w: %w", errNotTaken, err)
	}
	return err
}

// Close ends the connections.
func (p *Puller) Close() { p.done() }

// someOf reports whether there are credentials for any of the hosts.
func someOf(logins map[string]login) bool {
	for _, l := range logins {
		if l.secret != "" {
			return true
		}
	}
	return false
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
