package egress

import (
	"net"

	"github.com/assay-run/assay/pkg/runtime/toll"
)

// paid is a connection of a program to the proxy. The job pays for its requests, and waits if its ration is used up.
type paid struct {
	net.Conn
	proxy *Proxy
}

func (p *Proxy) paid(c net.Conn) net.Conn { return &paid{toll.Conn(c, p.cfg.Toll, true), p} }

// Read implements net.Conn.
func (c *paid) Read(b []byte) (int, error) {
	if !c.proxy.rest() {
		return 0, net.ErrClosed
	}
	return c.Conn.Read(b)
}

// CloseWrite closes the writing side.
func (c *paid) CloseWrite() error { return closeWrite(c.Conn) }
