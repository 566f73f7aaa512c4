// Package registry says how images are pulled from registries: from which of them, through
// which mirrors, with whose credentials, and how much may come from there.
//
// Whoever runs a registry is a stranger. Redirects, realms of tokens and the urls of layers
// lead nowhere but to public addresses with TLS, unless the operator has listed the host; a
// host is told the credentials that are its own; and what comes is counted before it is
// unpacked. A pull that leaves these bounds fails, and Refused makes of that what a tenant
// may read: nothing that came from elsewhere.
package registry

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/distribution/reference"
)

// registry is one that images may be pulled from.
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
	i := slices.IndexFunc(list, func(r registry) bool { return r.covers(ref) })
	if i < 0 {
		return registry{}, false
	}
	return list[i], true
}

// covers reports whether ref is below r's name, or has just that where it is an image's.
func (r registry) covers(ref string) bool {
	rest, ok := strings.CutPrefix(ref, r.name)
	return ok && rest != "" && (rest[0] == '/' || strings.Contains(r.name, "/") && (rest[0] == ':' || rest[0] == '@'))
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
