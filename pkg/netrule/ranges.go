package netrule

import (
	"fmt"
	"net/netip"
	"slices"
)

// ParseRanges reads a list of addresses and ranges with a port each, such as
// 10.0.0.0/8:443. It is how an operator opens addresses that are not public:
// names have no place in it, for what counts is where they lead.
func ParseRanges(entries []string) (Rules, error) {
	for i, e := range entries {
		rule, err := ParseRule(e)
		if err == nil && !rule.IsRange() {
			err = fmt.Errorf("%.100q is a name: write the range that it leads into, such as 10.0.0.0/8:443", e)
		}
		if err != nil {
			return Rules{}, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return ParseRules(entries)
}

// Private returns those entries of an allow-list that are for addresses which
// are not public. A wide range (0.0.0.0/0:443) is none of them: it opens nothing
// but public ones. What ParseRule refuses is left out.
func Private(entries []string) (out []string) {
	for _, e := range entries {
		rule, err := ParseRule(e)
		if err == nil && rule.IsRange() && slices.ContainsFunc(blocks, func(b Block) bool { return within(rule.prefix, b.Prefix) }) {
			out = append(out, e)
		}
	}
	return out
}

// within says whether wide holds all of narrow.
func within(narrow, wide netip.Prefix) bool {
	return wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
}

// Host is an entry of a list of hosts: a name or a range, at one port or at all.
type Host struct{ rule Rule }

// ParseHost reads a name, an address or a range, each with or without a port:
// nats.internal, nats.internal:4222, 10.0.0.0/8, [fd00::1]:80. Without one it
// stands for all ports.
func ParseHost(entry string) (Host, error) {
	text := entry + ":*"
	if p, err := netip.ParsePrefix(entry); err == nil && p.Addr().Is6() {
		text = "[" + entry + "]:*"
	} else if a, err := netip.ParseAddr(entry); err == nil && a.Is6() {
		text = "[" + entry + "]:*"
	}
	rule, err := ParseRule(text)
	if err != nil {
		rule, err = ParseRule(entry)
	}
	if err == nil && rule.below {
		err = fmt.Errorf("%.100q is a wildcard, which has no address", entry)
	}
	if err != nil {
		return Host{}, fmt.Errorf("%.100q is no name, address or range, with or without a port: %w", entry, err)
	}
	return Host{rule}, nil
}

// Name returns the name, "" if the entry is a range.
func (h Host) Name() string { return h.rule.name }

// Range returns the range, the zero Prefix if the entry is a name.
func (h Host) Range() netip.Prefix { return h.rule.prefix }

// At says whether the entry is for port.
func (h Host) At(port uint16) bool { return h.rule.at(port) }

// Empty says whether the list has no entry.
func (r Rules) Empty() bool { return !r.any && len(r.list) == 0 }

// inner are the domains that lead nowhere but inside somebody's own network.
var inner = []string{"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan", "localdomain", "arpa", "onion", "alt"}

// Inner says whether a canonical name can only lead to addresses that are not
// public: a single label, or a name below a domain that is nobody's in public.
func Inner(name string) bool {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return slices.Contains(inner, name[i+1:])
		}
	}
	return true
}
