package egress

import (
	"encoding/binary"
	"io"
	"net/netip"
	"slices"
)

// SOCKS5: the part of RFC 1928 that jobs may use.
const (
	socksVersion = 5
	socksConnect = 1
	socksNoAuth  = 0
	socksNone    = 0xff // none of the offered methods

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4

	socksOK          = 0
	socksFailed      = 1
	socksRefused     = 2
	socksUnreachable = 4
	socksNoCommand   = 7
	socksNoAddress   = 8
)

func (c *client) socks() {
	if !c.socksGreet() {
		return
	}
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return
	}
	if head[0] != socksVersion || head[2] != 0 {
		c.refuse("socks5", "", "a malformed request")
		c.socksReply(socksFailed)
		return
	}
	t, code, err := c.socksTarget(head[3])
	if err != nil {
		return
	}
	if code == socksOK && head[1] != socksConnect {
		c.refuse("socks5", t.String(), "only CONNECT is served")
		code = socksNoCommand
	}
	if code != socksOK {
		c.socksReply(code)
		return
	}
	up, no := c.open("socks5", t)
	if no != nil {
		if code = socksRefused; no.decision == Failed {
			code = socksUnreachable
		}
		c.socksReply(code)
		return
	}
	defer up.Close()
	if c.socksReply(socksOK) {
		c.tunnel(up)
	}
}

// socksGreet selects no authentication.
func (c *client) socksGreet() bool {
	var head [2]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return false
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(c.r, methods); err != nil {
		return false
	}
	if !slices.Contains(methods, socksNoAuth) {
		c.refuse("socks5", "", "the client wants a password")
		_, _ = c.conn.Write([]byte{socksVersion, socksNone})
		return false
	}
	_, err := c.conn.Write([]byte{socksVersion, socksNoAuth})
	return err == nil
}

// socksTarget reads the destination. A code other than socksOK is the response for an already
// recorded attempt. An error means that the client is gone.
func (c *client) socksTarget(kind byte) (t target, code byte, err error) {
	n := map[byte]int{socksIPv4: 4, socksIPv6: 16}[kind]
	if kind == socksName {
		length, err := c.r.ReadByte()
		if err != nil {
			return t, 0, err
		}
		n = int(length)
	} else if n == 0 {
		c.refuse("socks5", "", "an unknown kind of address")
		return t, socksNoAddress, nil
	}
	raw := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, raw); err != nil {
		return t, 0, err
	}
	host, port := raw[:n], binary.BigEndian.Uint16(raw[n:])
	if kind == socksName {
		if t, err = parseHost(string(host), port); err != nil {
			c.refuse("socks5", string(host), err.Error())
			return t, socksRefused, nil
		}
	} else {
		a, _ := netip.AddrFromSlice(host)
		t = target{addr: a.Unmap(), port: port}
	}
	if port == 0 {
		c.refuse("socks5", t.host(), "a missing or malformed port")
		return t, socksRefused, nil
	}
	return t, socksOK, nil
}

// socksReply responds to a request without an address, which would be the worker's.
func (c *client) socksReply(code byte) bool {
	_, err := c.conn.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err == nil
}
