package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// login is the credentials for a registry.
type login struct{ user, secret string }

// credentials are logins by prefix of image names.
type credentials map[string]login

// dockerConfig is the part of docker's config.json with credentials.
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

// readCredentials reads a file in the format of docker's config.json. Its errors do not reveal the
// content.
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
	for _, name := range slices.Sorted(maps.Keys(c.Auths)) {
		a := c.Auths[name]
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

// registryKey returns the prefix of image names for a key of auths. Some keys have a scheme, and
// docker.io has several names.
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

// of returns the login for name, an image without its tag, with the longest matching key.
func (c credentials) of(name string) (l login) {
	best := -1
	for key, have := range c {
		if (name == key || strings.HasPrefix(name, key+"/")) && len(key) > best {
			best, l = len(key), have
		}
	}
	return l
}
