package egress

import (
	"net/netip"
	"slices"
)

// block is a range of addresses that a name must not lead into, and that a wide
// rule (0.0.0.0/0:443) does not open: only a rule for a range within it does.
type block struct {
	prefix netip.Prefix
	kind   string
}

// blocks are judged in order, narrow ones first: the addresses at which clouds
// hand out credentials, then the IANA special-purpose registries (RFC 6890), then
// what is not global unicast at all.
var blocks = func() []block {
	var out []block
	add := func(kind string, prefixes ...string) {
		for _, p := range prefixes {
			out = append(out, block{netip.MustParsePrefix(p), kind})
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

// never are the kinds of block that no name leads to, whoever wrote it.
var never = []string{"metadata", "unspecified", "link-local", "multicast", "NAT64", "6to4", "Teredo", "IPv4-compatible"}

// special returns the block that holds a.
func special(a netip.Addr) (block, bool) {
	for _, b := range blocks {
		if b.prefix.Contains(a) {
			return b, true
		}
	}
	return block{}, false
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// embedded returns the IPv4 address that a packet to a ends at, where that can
// be told from a.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case nat64.Contains(a), compatible.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// judge says why a may not be dialled at port, or "". written is whether the
// client wrote the address itself; otherwise a name that is allowed led to it.
func (c *Config) judge(a netip.Addr, port uint16, written bool) string {
	if a.Zone() != "" {
		return "an address with a zone"
	}
	a = a.Unmap()
	for _, never := range c.Never {
		if never.Contains(a) {
			return "an address that this worker never dials"
		}
	}
	if written && !c.Rules.AllowsAddr(a, port) {
		return notListed
	}
	b, ok := special(a)
	if !ok {
		return ""
	}
	if c.Trusted && !written && !slices.Contains(never, b.kind) {
		return ""
	}
	if !c.Rules.Holds(a, port, b.prefix) {
		return b.kind + " address that no rule names"
	}
	if v4, ok := embedded(a); ok && !a.IsLoopback() && !a.IsUnspecified() {
		return c.judge(v4, port, false)
	}
	return ""
}

const notListed = "not on the allow-list"
