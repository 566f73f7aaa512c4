package netrule

import (
	"fmt"
	"net/netip"
	"slices"
)

// ParseRanges reads a list of addresses and ranges with a port each, such as 10.0.0.0/8:443.
// Operators open private addresses with it. It rejects names, because only their addresses matter.
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

// Private returns the entries of an allow-list for private addresses. It leaves out wide ranges
// (0.0.0.0/0:443), which open public addresses only, and entries that ParseRule rejects.
func Private(entries []string) (out []string) {
	for _, e := range entries {
		rule, err := ParseRule(e)
		if err == nil && rule.IsRange() && slices.ContainsFunc(blocks, func(b Block) bool { return covers(rule.prefix, b.Prefix) }) {
			out = append(out, e)
		}
	}
	return out
}

// covers reports whether wide contains all of narrow.
func covers(narrow, wide netip.Prefix) bool {
	return wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
}

// Host is an entry of a list of hosts: a name or a range, at one port or at all ports.
type Host struct{ rule Rule }

// ParseHost reads a name, an address or a range, each with an optional port: nats.internal,
// nats.internal:4222, 10.0.0.0/8, [fd00::1]:80. Without a port it means all ports.
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

// Name returns the name, or "" if the entry is a range.
func (h Host) Name() string { return h.rule.name }

// Range returns the range, or the zero Prefix if the entry is a name.
func (h Host) Range() netip.Prefix { return h.rule.prefix }

// At reports whether the entry includes port.
func (h Host) At(port uint16) bool { return h.rule.at(port) }

// Empty reports whether the list has no entry.
func (r Rules) Empty() bool { return !r.any && len(r.list) == 0 }

// inner lists the domains that resolve only inside private networks.
var inner = []string{"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan", "localdomain", "arpa", "onion", "alt"}

// Inner reports whether a canonical name can only lead to private addresses: a single label, or a
// name below a domain without public registrations.
func Inner(name string) bool {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return slices.Contains(inner, name[i+1:])
		}
	}
	return true
}
