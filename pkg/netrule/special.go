package netrule

import (
	"net/netip"
	"slices"
	"strings"
)

// Block is a protected range of addresses. Names must not lead into it, and wide rules
// (0.0.0.0/0:443) do not open it. Only a rule for a range within the block opens addresses there.
type Block struct {
	Prefix netip.Prefix
	Kind   string // such as loopback
}

// blocks lists the blocks in order, narrow ones first: the addresses of cloud credentials, then the
// IANA special-purpose registries (RFC 6890), then all ranges that are not global unicast.
var blocks = func() []Block {
	var out []Block
	add := func(kind string, prefixes ...string) {
		for _, p := range prefixes {
			out = append(out, Block{netip.MustParsePrefix(p), kind})
		}
	}
	add("metadata", "169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32", "168.63.129.16/32",
		"192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128")
	add("unspecified", "0.0.0.0/32", "::/128")
	add("loopback", "127.0.0.0/8", "::1/128")
	add("link-local", "169.254.0.0/16", "fe80::/10")
	add("private", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")
	add("shared", "100.64.0.0/10")
	add("multicast", "224.0.0.0/4", "ff00::/8")
	add("documentation", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")
	add("6to4", "192.88.99.0/24", "2002::/16")
	add("NAT64", "64:ff9b::/96", "64:ff9b:1::/48")
	add("Teredo", "2001::/32")
	add("IPv4-compatible", "::/96")
	add("reserved", "0.0.0.0/8", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "2001::/23", "::/3", "4000::/2", "8000::/1")
	return out
}()

// Special returns the narrowest block that contains a.
func Special(a netip.Addr) (Block, bool) {
	for _, b := range blocks {
		if b.Prefix.Contains(a) {
			return b, true
		}
	}
	return Block{}, false
}

// Covers reports whether r allows everything that rule allows.
func (r Rules) Covers(rule Rule) bool {
	return slices.ContainsFunc(r.list, func(c Rule) bool {
		switch {
		case !c.at(rule.port) || c.prefix.IsValid() != rule.prefix.IsValid():
			return false
		case rule.prefix.IsValid():
			return c.prefix.Bits() <= rule.prefix.Bits() && c.prefix.Contains(rule.prefix.Addr()) && !opensMore(rule.prefix, c.prefix)
		case c.below:
			return strings.HasSuffix(rule.name, "."+c.name) || rule.below && rule.name == c.name
		}
		return !rule.below && rule.name == c.name
	})
}

// opensMore reports whether a rule for narrow opens a block that a rule for wide does not. Both
// hold the same addresses, but a wide rule opens no blocks.
func opensMore(narrow, wide netip.Prefix) bool {
	return slices.ContainsFunc(blocks, func(b Block) bool {
		return b.Prefix.Contains(narrow.Addr()) && b.Prefix.Bits() <= narrow.Bits() && wide.Bits() < b.Prefix.Bits()
	})
}
