package egress

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/assay-run/assay/pkg/netrule"
)

// target is a client's destination in canonical form: a name or an address, never both.
type target struct {
	name string
	addr netip.Addr
	port uint16
}

func (t target) host() string {
	if t.addr.IsValid() {
		return t.addr.String()
	}
	return t.name
}

func (t target) String() string { return net.JoinHostPort(t.host(), strconv.Itoa(int(t.port))) }

// parseHost reads a client's host, IPv6 without brackets. It rejects IPv4 in any format except
// dotted decimal, because programs interpret others differently.
func parseHost(s string, port uint16) (target, error) {
	if len(s) > 255 {
		return target{}, errors.New("a host name that is too long")
	}
	if strings.Contains(s, ":") {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return target{}, errors.New("a malformed IPv6 address")
		}
		return target{addr: a.Unmap(), port: port}, nil
	}
	s, err := toASCII(s)
	if err != nil {
		return target{}, err
	}
	if netrule.EndsInNumber(s) {
		a, err := netip.ParseAddr(strings.TrimSuffix(s, "."))
		if err != nil {
			return target{}, errors.New("an unusual spelling of an IPv4 address")
		}
		return target{addr: a, port: port}, nil
	}
	name, err := netrule.CanonicalName(s)
	if err != nil {
		return target{}, errors.New("a malformed host name")
	}
	return target{name: name, port: port}, nil
}

// toASCII converts an internationalized name like browsers. The result may be an address, because ①
// and ０ are digits.
func toASCII(s string) (string, error) {
	if strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return s, nil
	}
	if !utf8.ValidString(s) {
		return "", errors.New("a malformed host name")
	}
	s, err := idna.Lookup.ToASCII(s)
	if err != nil {
		return "", errors.New("a malformed internationalised name")
	}
	return s, nil
}

// parseAuthority reads host, host:port or [address]:port. If defaultPort is 0, a port is required.
func parseAuthority(s string, defaultPort uint16) (target, error) {
	host, text, hasPort := s, "", false
	if inner, ok := strings.CutPrefix(s, "["); ok {
		host, text, ok = strings.Cut(inner, "]")
		if !ok || !strings.Contains(host, ":") {
			return target{}, errors.New("malformed brackets in the host")
		}
		if text != "" {
			if text, hasPort = strings.CutPrefix(text, ":"); !hasPort {
				return target{}, errors.New("malformed brackets in the host")
			}
		}
	} else if host, text, hasPort = strings.Cut(s, ":"); strings.Contains(text, ":") {
		return target{}, errors.New("more than one port, or IPv6 without brackets")
	}
	port := defaultPort
	if hasPort || port == 0 {
		var err error
		if port, err = netrule.ParsePort(text); err != nil {
			return target{}, errors.New("a missing or malformed port")
		}
	}
	if host == "" {
		return target{}, errors.New("a missing host")
	}
	return parseHost(host, port)
}
