package egress

import (
	"net/netip"
	"slices"

	"github.com/assay-run/assay/pkg/netrule"
)

// never are the kinds of block that no name leads to, whoever wrote it.
var never = []string{"metadata", "unspecified", "link-local", "multicast", "NAT64", "6to4", "Teredo", "IPv4-compatible"}

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
	b, ok := netrule.Special(a)
	if !ok {
		return ""
	}
	if c.Trusted && !written && !slices.Contains(never, b.Kind) {
		return ""
	}
	if !c.Rules.Holds(a, port, b.Prefix) {
		return b.Kind + " address that no rule names"
	}
	if v4, ok := embedded(a); ok && !a.IsLoopback() && !a.IsUnspecified() {
		return c.judge(v4, port, false)
	}
	return ""
}

const notListed = "not on the allow-list"
