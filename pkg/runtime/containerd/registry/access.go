package registry

import (
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/distribution/reference"
)

// Config holds the registries and their credentials.
type Config struct {
	// Registries are the registries for pulls: host[:port], optionally with a path prefix, and with
	// http:// for a registry without TLS.
	Registries []string
	// Mirrors are preferred registries: REGISTRY=MIRROR, where the first is a host of Registries and
	// the second has the same format.
	Mirrors []string
	// Credentials is a file in the format of docker's config.json, read for each pull. Empty: no
	// credentials.
	Credentials string
}

// Access is the operator's rules for pulls. The zero value allows none.
type Access struct {
	list        []registry
	mirrors     []mirror
	credentials string // path of a file; empty: none
}

// mirror is a preferred registry in place of another.
type mirror struct {
	of string // the other's host, as in references of images
	registry
}

// Open reads a configuration and checks the file of credentials. The error names the wrong setting
// and reveals no secrets.
func Open(c Config) (*Access, error) {
	a := &Access{credentials: c.Credentials}
	var err error
	if a.list, err = parseRegistries(c.Registries); err != nil {
		return nil, fmt.Errorf("image registries: %w", err)
	}
	for _, entry := range c.Mirrors {
		m, err := a.parseMirror(entry)
		if err != nil {
			return nil, fmt.Errorf("image mirrors: %w", err)
		}
		a.mirrors = append(a.mirrors, m)
	}
	if a.credentials != "" {
		if _, err := readCredentials(a.credentials); err != nil {
			return nil, fmt.Errorf("image credentials: %w", err)
		}
	}
	return a, nil
}

// parseMirror reads an entry of Config.Mirrors.
func (a *Access) parseMirror(entry string) (mirror, error) {
	of, at, ok := strings.Cut(entry, "=")
	if !ok {
		return mirror{}, fmt.Errorf("%.200q is not REGISTRY=MIRROR, such as docker.io=mirror.example.com/hub", entry)
	}
	m, err := parseRegistries([]string{at})
	if err != nil {
		return mirror{}, err
	}
	for _, r := range a.list {
		if r.name == of || strings.HasPrefix(r.name, of+"/") {
			return mirror{of, m[0]}, nil
		}
	}
	return mirror{}, fmt.Errorf("%.200q is a mirror of a host that is not in --image-registries; add the host", entry)
}

// Lists reports whether ref may be pulled.
func (a *Access) Lists(ref string) bool {
	_, ok := registryOf(a.list, ref)
	return ok
}

// of returns the mirrors of ref's registry.
func (a *Access) of(ref string) (out []mirror) {
	host, _, _ := strings.Cut(ref, "/")
	for _, m := range a.mirrors {
		if m.of == host {
			out = append(out, m)
		}
	}
	return out
}

// all returns all registries that requests may go to.
func (a *Access) all() []registry {
	out := append([]registry(nil), a.list...)
	for _, m := range a.mirrors {
		out = append(out, m.registry)
	}
	return out
}

// logins returns the credentials of each host for a pull of ref, by host name in requests. It reads
// the file for each pull, so that changes apply at once.
func (a *Access) logins(ref string) (map[string]login, error) {
	if a.credentials == "" {
		return nil, nil
	}
	all, err := readCredentials(a.credentials)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCredentials, err)
	}
	named, err := reference.ParseNamed(ref)
	if err != nil {
		return nil, err
	}
	path := reference.Path(named)
	domain := reference.Domain(named)
	host, err := docker.DefaultHost(domain)
	if err != nil {
		return nil, err
	}
	out := map[string]login{host: all.of(domain + "/" + path)}
	for _, m := range a.of(ref) {
		out[m.authority()] = all.of(m.name + "/" + path)
	}
	return out, nil
}
