package environment

import (
	"errors"
	"net"
	"net/url"

	"github.com/assay-run/assay/pkg/netrule"
)

// Index is the source of packages.
type Index struct {
	URL   string   // a simple index, such as https://pypi.org/simple
	Allow []string // additional destinations of builds: entries of a network allow-list
}

// PyPI is the public index.
var PyPI = Index{URL: "https://pypi.org/simple", Allow: []string{"files.pythonhosted.org:443"}}

// Check returns an error for a wrong setting.
func (x Index) Check() error {
	_, err := x.rules()
	return err
}

// rules returns the allow-list of builds, or an error for a wrong setting.
func (x Index) rules() ([]string, error) {
	u, err := url.Parse(x.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("the index must be a URL such as https://pypi.org/simple, without a password")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	list := append([]string{net.JoinHostPort(u.Hostname(), port)}, x.Allow...)
	_, err = netrule.ParseRules(list)
	return list, err
}

// plain returns the host of an index without TLS, or "". pip ignores such an index unless it is
// marked as trusted.
func (x Index) plain() string {
	if u, err := url.Parse(x.URL); err == nil && u.Scheme == "http" {
		return u.Host
	}
	return ""
}
