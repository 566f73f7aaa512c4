package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
)

// errRefused is the error for an address that may not be called.
var errRefused = errors.New("the address is not public, and this fleet does not allow it")

// judge rejects special addresses that the operator did not allow.
func judge(allow netrule.Rules, a netip.Addr, port uint16) error {
	a = a.Unmap()
	if a.Zone() != "" {
		return errRefused
	}
	if b, special := netrule.Special(a); special && !allow.Holds(a, port, b.Prefix) {
		return errRefused
	}
	return nil
}

// newHTTPClient returns a client that dials only addresses that judge accepts, checked after name
// resolution.
func newHTTPClient(allow netrule.Rules, timeout time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: -1}
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return errRefused
		}
		return judge(allow, at.Addr(), at.Port())
	}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
			TLSHandshakeTimeout: timeout, ForceAttemptHTTP2: true,
		},
		// A redirect counts as the answer: the tenant did not sign for its target.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// checkURL checks a URL without resolving its name.
func checkURL(allow netrule.Rules, text string) error {
	bad := func(format string, args ...any) error { return job.Invalid("callback.url", format, args...) }
	if len(text) > job.MaxCallbackURL {
		return bad("is longer than %d bytes", job.MaxCallbackURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "":
		return bad("%.100q must be an http or https URL, such as https://example.org/done", text)
	case u.User != nil:
		return bad("must not contain a user or password, which others could read; use secret_ref to sign the callback")
	case u.Fragment != "":
		return bad("must not have a fragment: it would not be sent")
	}
	port, err := portOf(u)
	if err != nil {
		return bad("%v", err)
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		if judge(allow, a, port) != nil {
			return bad("%s is not a public address; the operator of this fleet can allow it with --egress-private of the dispatchers", a)
		}
		return nil
	}
	if netrule.EndsInNumber(u.Hostname()) {
		return bad("%.100q is not a plain address: write it as 192.0.2.7", u.Hostname())
	}
	if _, err := netrule.CanonicalName(u.Hostname()); err != nil {
		return bad("the host %v", err)
	}
	return nil
}

func portOf(u *url.URL) (uint16, error) {
	switch {
	case u.Port() != "":
		return netrule.ParsePort(u.Port())
	case u.Scheme == "http":
		return 80, nil
	}
	return 443, nil
}

// kindOf returns the description of a failure for the tenant.
func kindOf(err error, timeout time.Duration) string {
	var dns *net.DNSError
	var op *net.OpError
	var errno syscall.Errno
	switch {
	case errors.Is(err, errRefused):
		return errRefused.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the host has no address"
	case isTimeout(err):
		return "no answer within " + timeout.String()
	case errors.As(err, &dns):
		return "the host could not be looked up"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &op):
		return "the connection failed"
	}
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return fmt.Sprintf("the request failed: %.200v", err) // TLS, or an answer that is not HTTP
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// retryAfter returns the requested delay of the receiver, if it gave one in seconds.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 || n > 1<<20 {
		return 0
	}
	return time.Duration(n) * time.Second
}
