// Package registry controls pulls of images from registries: the allowed registries, mirrors,
// credentials, and limits of received data.
//
// Registries are untrusted. Redirects, token realms and layer URLs may only lead to public
// addresses with TLS, or to hosts that the operator has listed. A host only gets its own
// credentials. Received data is counted before it is unpacked. A pull that violates these rules
// fails, and Refused returns an error for the tenant without text from other sources.
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

// registry is a registry for pulls.
type registry struct {
	name  string // host[:port][/path], as in references of images
	host  string // host:port of the connection
	plain bool   // without TLS
}

// parseRegistries reads the registries for pulls: host[:port], optionally with a path prefix, and
// with http:// for a registry without TLS.
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
	host, err := docker.DefaultHost(domain) // docker.io's has a different name
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

// registryOf returns the entry that allows ref.
func registryOf(list []registry, ref string) (registry, bool) {
	i := slices.IndexFunc(list, func(r registry) bool { return r.covers(ref) })
	if i < 0 {
		return registry{}, false
	}
	return list[i], true
}

// covers reports whether ref is below r's name, or equals it if that may be an image.
func (r registry) covers(ref string) bool {
	rest, ok := strings.CutPrefix(ref, r.name)
	return ok && rest != "" && (rest[0] == '/' || strings.Contains(r.name, "/") && (rest[0] == ':' || rest[0] == '@'))
}

// authority returns the host of r's API as in requests.
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
