package containerd

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteserrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
)

// PullPolicy says when a registry is asked what a name means.
type PullPolicy string

// The policies.
const (
	PullIfNotPresent PullPolicy = "if_not_present" // when no image of the name is there
	PullAlways       PullPolicy = "always"         // and again when it was asked more than pullFresh ago
)

// pullFresh is how long, with PullAlways, a tag means what its registry said it did.
const pullFresh = time.Minute

// access is how an operator lets images be had, besides from where.
type access struct {
	mirrors     []mirror
	credentials string // path of a file; empty: none
	policy      PullPolicy
}

// mirror is a registry that is asked before another.
type mirror struct {
	of string // the other's host, as references of images begin
	registry
}

// newAccess reads what c says of it, and tries the file of credentials.
func (c Config) newAccess(list []registry) (a access, err error) {
	a.credentials, a.policy = c.ImageCredentials, c.ImagePull
	switch a.policy {
	case "":
		a.policy = PullIfNotPresent
	case PullIfNotPresent, PullAlways:
	default:
		return a, fmt.Errorf("image pull policy: %q is neither %s nor %s", a.policy, PullIfNotPresent, PullAlways)
	}
	for _, entry := range c.ImageMirrors {
		of, at, ok := strings.Cut(entry, "=")
		if !ok {
			return a, fmt.Errorf("image mirrors: %.200q is not REGISTRY=MIRROR, such as docker.io=mirror.example.com/hub", entry)
		}
		m, err := parseRegistries([]string{at})
		if err != nil {
			return a, fmt.Errorf("image mirrors: %w", err)
		}
		used := false
		for _, r := range list {
			used = used || r.name == of || strings.HasPrefix(r.name, of+"/")
		}
		if !used {
			return a, fmt.Errorf("image mirrors: %.200q is a mirror of nothing that images may be pulled from: name a host of --image-registries", entry)
		}
		a.mirrors = append(a.mirrors, mirror{of, m[0]})
	}
	if a.credentials != "" {
		if _, err := readCredentials(a.credentials); err != nil {
			return a, fmt.Errorf("image credentials: %w", err)
		}
	}
	return a, nil
}

// of returns the mirrors of the registry that ref names.
func (a *access) of(ref string) (out []mirror) {
	host, _, _ := strings.Cut(ref, "/")
	for _, m := range a.mirrors {
		if m.of == host {
			out = append(out, m)
		}
	}
	return out
}

// lists returns the registries that a guard lets through.
func (a *access) lists(list []registry) []registry {
	out := append([]registry(nil), list...)
	for _, m := range a.mirrors {
		out = append(out, m.registry)
	}
	return out
}

// stale reports whether the registry of ref is to be asked although img is there. What a
// digest names does not change, and what was imported is the operator's to replace.
func (m *images) stale(ref string, img client.Image) bool {
	if m.access.policy != PullAlways || img.Labels()[pulledLabel] == "" {
		return false
	}
	if named, err := reference.ParseNamed(ref); err != nil {
		return false
	} else if _, exact := named.(reference.Digested); exact {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.asked[ref]) >= pullFresh
}

// answered notes that the registry of ref has said what it means.
func (m *images) answered(ref string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, at := range m.asked {
		if time.Since(at) >= pullFresh {
			delete(m.asked, name)
		}
	}
	m.asked[ref] = time.Now()
}

// errCredentials says that the operator's file of credentials is no use now.
var errCredentials = errors.New("the credentials of this worker for registries cannot be read")

// errNotTaken says that a registry let nobody in who was told the operator's credentials.
var errNotTaken = errors.New("its registry does not take the credentials of this worker")

// notLetIn reports whether a registry asks for other credentials, or for some.
func notLetIn(err error) bool {
	var status remoteserrors.ErrUnexpectedStatus
	return errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err) || errors.Is(err, docker.ErrInvalidAuthorization) ||
		errors.As(err, &status) && (status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden)
}

// someOf reports whether there are credentials for any of the hosts.
func someOf(logins map[string]login) bool {
	for _, l := range logins {
		if l.secret != "" {
			return true
		}
	}
	return false
}

// login is what a registry is told.
type login struct{ user, secret string }

// credentials are logins by what names of images begin with.
type credentials map[string]login

// dockerConfig is the part of docker's config.json that has credentials in it.
type dockerConfig struct {
	Auths map[string]struct {
		Auth          string `json:"auth"` // base64 of user:password
		Username      string `json:"username"`
		Password      string `json:"password"`
		IdentityToken string `json:"identitytoken"`
	} `json:"auths"`
	CredsStore  string            `json:"credsStore"`
	CredHelpers map[string]string `json:"credHelpers"`
}

// readCredentials reads a file of the shape of docker's config.json. It says nothing of
// what is in it, in errors either.
func readCredentials(path string) (credentials, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c dockerConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%s is not JSON of the shape of docker's config.json", path)
	}
	if c.CredsStore != "" || len(c.CredHelpers) > 0 {
		return nil, fmt.Errorf("%s names programs that have the credentials (credsStore, credHelpers), and workers run none: put them under auths", path)
	}
	out := credentials{}
	for name, a := range c.Auths {
		l := login{a.Username, a.Password}
		if a.Auth != "" {
			plain, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, ok := strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
			if err != nil || !ok {
				return nil, fmt.Errorf("%s: auths.%s.auth is not user:password in base64", path, name)
			}
			l = login{user, password}
		}
		if a.IdentityToken != "" {
			l = login{"", a.IdentityToken}
		}
		if l.secret == "" {
			return nil, fmt.Errorf("%s: auths.%s has neither auth, nor username and password, nor identitytoken", path, name)
		}
		out[registryKey(name)] = l
	}
	return out, nil
}

// registryKey is the beginning of names that a key of auths is for: some have a scheme,
// and docker.io has several names.
func registryKey(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	key = strings.TrimSuffix(key, "/")
	for _, version := range []string{"/v1", "/v2"} {
		key = strings.TrimSuffix(key, version)
	}
	host, rest, _ := strings.Cut(key, "/")
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	if rest != "" {
		return host + "/" + rest
	}
	return host
}

// of returns the login for name, an image without its tag, of the longest key that it
// begins with.
func (c credentials) of(name string) (l login) {
	best := -1
	for key, have := range c {
		if (name == key || strings.HasPrefix(name, key+"/")) && len(key) > best {
			best, l = len(key), have
		}
	}
	return l
}

// logins returns what hosts are told when ref is pulled, each its own: by their names in
// requests. The file is read for each pull, so that a new one counts at once.
func (a *access) logins(ref string) (map[string]login, error) {
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
