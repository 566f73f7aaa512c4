// Package netrule is the language of network allow-lists: the syntax of entries and their meaning.
// The policy that validates them and the proxy that enforces them share this code.
package netrule

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// MaxRules is the most entries of an allow-list.
const MaxRules = 1000

// Rules is an allow-list. The zero value allows nothing. It is immutable, so it may be shared.
type Rules struct {
	list []Rule
	any  bool
}

// Rule is one entry of an allow-list: a name, the names below a domain, or a range of addresses, at
// one port or at all ports.
type Rule struct {
	name   string       // canonical, "" for a range
	below  bool         // names below name, excluding name itself
	prefix netip.Prefix // of a range
	port   uint16       // 0 for all
}

// Any returns the list that allows every name and every public address at every port. It does not
// allow addresses that need a rule of their own.
func Any() Rules { return Rules{any: true} }

// ParseRules reads an allow-list. An error names the entry and its problem. ParseRule has the
// syntax of entries.
func ParseRules(entries []string) (Rules, error) {
	if len(entries) > MaxRules {
		return Rules{}, fmt.Errorf("an allow-list has at most %d entries, not %d", MaxRules, len(entries))
	}
	r := Rules{list: make([]Rule, 0, len(entries))}
	for i, e := range entries {
		rule, err := ParseRule(e)
		if err != nil {
			return Rules{}, fmt.Errorf("allow[%d]: %w", i, err)
		}
		if !slices.Contains(r.list, rule) {
			r.list = append(r.list, rule)
		}
	}
	return r, nil
}

// ParseRule reads host:port, *.domain:port, address:port or CIDR:port. IPv6 needs brackets
// ([2001:db8::/32]:443), and the port * means every port. *.domain means every name below domain at
// any depth, but not domain. Case and a trailing dot are ignored.
func ParseRule(entry string) (Rule, error) {
	rule, err := parseRule(entry)
	if err != nil {
		return Rule{}, fmt.Errorf("%.100q %w", entry, err)
	}
	return rule, nil
}

func parseRule(entry string) (Rule, error) {
	host, text, bracketed, err := splitEntry(entry)
	if err != nil {
		return Rule{}, err
	}
	rule := Rule{}
	if text != "*" {
		if rule.port, err = ParsePort(text); err != nil {
			return Rule{}, err
		}
	}
	switch {
	case bracketed || strings.Contains(host, "/"):
		rule.prefix, err = parseRange(host, bracketed)
	case host == "*":
		err = errors.New("allows every host: name a domain (*.example.org:443), or use the open mode")
	case strings.HasPrefix(host, "*."):
		rule.below = true
		rule.name, err = CanonicalName(host[2:])
	case EndsInNumber(host):
		rule.prefix, err = parseRange(host, false)
	default:
		rule.name, err = CanonicalName(host)
	}
	if err == nil && rule.below && EndsInNumber(rule.name) {
		err = errors.New("must not combine a wildcard and an address: write a CIDR (192.0.2.0/24:443)")
	}
	return rule, err
}

// splitEntry removes the port and the brackets of IPv6 from an entry.
func splitEntry(entry string) (host, port string, bracketed bool, err error) {
	const want = "must be host:port, *.host:port, address:port or CIDR:port"
	i := strings.LastIndexByte(entry, ':')
	if i <= 0 {
		return "", "", false, errors.New(want)
	}
	host, port = entry[:i], entry[i+1:]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(inner, ":") {
			return "", "", false, errors.New(want + "; brackets are for IPv6")
		}
		return inner, port, true, nil
	}
	if strings.Contains(host, ":") {
		return "", "", false, errors.New(want + "; IPv6 needs brackets: [2001:db8::1]:443")
	}
	return host, port, false, nil
}

// parseRange reads an address or a CIDR in canonical form.
func parseRange(s string, v6 bool) (netip.Prefix, error) {
	var p netip.Prefix
	var err error
	if strings.Contains(s, "/") {
		p, err = netip.ParsePrefix(s)
	} else {
		var a netip.Addr
		if a, err = netip.ParseAddr(s); err == nil {
			p = netip.PrefixFrom(a, a.BitLen())
		}
	}
	switch {
	case strings.Contains(s, "%"): // a prefix would silently drop it
		return p, errors.New("must not have a zone")
	case err != nil:
		return p, errors.New("is not a plain address or CIDR (192.0.2.7, 192.0.2.0/24, [2001:db8::/32])")
	case p.Addr().Is4In6():
		return p, errors.New("is IPv4 written as IPv6: write it as IPv4")
	case p.Addr().Is6() != v6:
		return p, errors.New("must have brackets if and only if it is IPv6")
	case p != p.Masked():
		return p, fmt.Errorf("has address bits after the prefix: write %s", p.Masked())
	}
	return p, nil
}

// ParsePort reads 1 to 65535 in canonical form.
func ParsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s != strconv.FormatUint(n, 10) {
		return 0, errors.New("has a bad port: it is 1 to 65535, and in a rule it may be *")
	}
	return uint16(n), nil
}

const nameBytes = "abcdefghijklmnopqrstuvwxyz0123456789-_"

// CanonicalName converts an ASCII host name to lower case and removes its trailing dot.
func CanonicalName(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return "", errors.New("is not a host name: it has 1 to 253 characters")
	}
	if strings.IndexFunc(s, func(r rune) bool { return r > 126 }) >= 0 {
		return "", errors.New("is not an ASCII host name: write it in its xn-- form")
	}
	s = strings.ToLower(s)
	for label := range strings.SplitSeq(s, ".") {
		switch {
		case label == "" || len(label) > 63:
			return "", errors.New("is not a host name: each label has 1 to 63 characters")
		case strings.Trim(label, nameBytes) != "":
			return "", errors.New("is not a host name: labels are letters, digits, hyphens and underscores")
		case label[0] == '-' || label[len(label)-1] == '-':
			return "", errors.New("is not a host name: labels do not begin or end with a hyphen")
		}
	}
	return s, nil
}

// EndsInNumber reports whether the WHATWG URL standard or inet_aton may read s as an IPv4 address:
// 127.1, 0x7f000001, 017700000001.
func EndsInNumber(s string) bool {
	s = strings.TrimSuffix(s, ".")
	last := strings.ToLower(s[strings.LastIndexByte(s, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// AllowsName reports whether r allows a canonical name.
func (r Rules) AllowsName(name string, port uint16) bool {
	return r.any || slices.ContainsFunc(r.list, func(rule Rule) bool {
		if rule.name == "" || !rule.at(port) {
			return false
		}
		if rule.below {
			return len(name) > len(rule.name)+1 && strings.HasSuffix(name, "."+rule.name)
		}
		return name == rule.name
	})
}

// AllowsAddr reports whether r allows an address from a client's request.
func (r Rules) AllowsAddr(a netip.Addr, port uint16) bool {
	return r.any || r.Holds(a, port, netip.Prefix{})
}

// Holds reports whether a rule for a range contains a. Unless block is zero, the range must also
// lie within block.
func (r Rules) Holds(a netip.Addr, port uint16, block netip.Prefix) bool {
	return slices.ContainsFunc(r.list, func(rule Rule) bool {
		return rule.prefix.IsValid() && rule.at(port) && rule.prefix.Contains(a) &&
			(!block.IsValid() || block.Bits() <= rule.prefix.Bits() && block.Contains(rule.prefix.Addr()))
	})
}

// Overlaps reports whether a rule for a range shares addresses with p.
func (r Rules) Overlaps(p netip.Prefix) bool {
	return slices.ContainsFunc(r.list, func(rule Rule) bool { return rule.prefix.IsValid() && rule.prefix.Overlaps(p) })
}

// IsRange reports whether the rule is for addresses rather than names.
func (r Rule) IsRange() bool { return r.prefix.IsValid() }

func (r Rule) at(port uint16) bool { return r.port == 0 || r.port == port }
