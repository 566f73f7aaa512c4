package egress

import (
	"net/netip"
	"slices"

	"github.com/assay-run/assay/pkg/netrule"
)

// never lists the kinds of blocks that names must not lead to, under any rule.
var never = []string{"metadata", "unspecified", "link-local", "multicast", "NAT64", "6to4", "Teredo", "IPv4-compatible"}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// embedded returns the IPv4 address where a packet to a ends, if a contains it.
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

// Reasons for a refusal.
const (
	notListed = "not on the allow-list"
	notOurs   = "an address that this worker never dials"
	notOpened = " address that the operator has not opened"
	innerName = "a name that leads to no public address"
)

// judgeName returns why name must not be looked up for port, or "".
func (c *Config) judgeName(name string, port uint16) string {
	switch {
	case !c.Rules.AllowsName(name, port):
		return notListed
	case c.Network.closesName(name, port):
		return notOurs
	case netrule.Inner(name) && !c.Trusted && c.Private.Empty() && c.Network.opensNothing():
		return innerName
	}
	return ""
}

// judge returns why a must not be dialled at port, or "". written means that the client's request
// has the address itself; otherwise an allowed name resolved to it.
//
// The tenant's list only decides about public addresses. All others also require the operator's
// permission.
func (c *Config) judge(a netip.Addr, port uint16, written bool) string {
	if a.Zone() != "" {
		return "an address with a zone"
	}
	a = a.Unmap()
	if c.Network.closes(a, port) {
		return notOurs
	}
	if written && !c.Rules.AllowsAddr(a, port) {
		return notListed
	}
	b, ok := c.Network.block(a)
	if !ok {
		return ""
	}
	if !c.opened(a, port, b, written) {
		return b.Kind + notOpened
	}
	if v4, ok := embedded(a); ok && !a.IsLoopback() && !a.IsUnspecified() {
		return c.judge(v4, port, false)
	}
	return ""
}

// opened reports whether the operator has opened a, in block b, at port. The operator's range must
// be within b, so that a wide range does not open more than it seems to.
func (c *Config) opened(a netip.Addr, port uint16, b netrule.Block, written bool) bool {
	if c.Private.Holds(a, port, b.Prefix) || c.Network.opens(a, port, b.Prefix) {
		return true
	}
	if !c.Trusted {
		return false
	}
	return c.Rules.Holds(a, port, b.Prefix) || !written && !slices.Contains(never, b.Kind)
}
