//go:build !linux

package identity

import (
	"errors"
	"net/netip"
)

// userOf returns an error: only Linux is supported. Clients on other systems send a token.
func userOf(netip.AddrPort, netip.AddrPort) (int, error) {
	return 0, errors.New("the user of a connection can be found on Linux only")
}
