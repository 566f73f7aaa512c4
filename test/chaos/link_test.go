package chaos

import (
	"net"
	"sync"
	"testing"
)

// A link is the only connection from one process to a component, and a test controls it: a
// partition, seen from both ends.
type link struct {
	listener net.Listener
	dial     func() (net.Conn, error)

	mu    sync.Mutex
	state condition
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

type condition int

const (
	whole  condition = iota
	cut              // connections end, new ones too
	frozen           // connections stay, nothing arrives: a silent partition
	deaf             // requests arrive and are executed; the answers are lost
)

const localhost = "127.0.0.1"

// newLink forwards from the address near of this host to address.
func newLink(t *testing.T, near, network, address string) *link {
	t.Helper()
	l, err := net.Listen("tcp", near+":0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{listener: l, conns: map[net.Conn]bool{}, dial: func() (net.Conn, error) { return net.Dial(network, address) }}
	k.wg.Go(k.accept)
	t.Cleanup(k.close)
	return k
}

func (k *link) address() string { return k.listener.Addr().String() }

// set changes the link's condition. A stream that lost bytes cannot go on, so its connections end
// with the condition.
func (k *link) set(c condition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == c {
		return
	}
	if c == cut || k.state != whole {
		for conn := range k.conns {
			conn.Close()
		}
	}
	k.state = c
}

func (k *link) now() condition {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

func (k *link) close() {
	k.listener.Close()
	k.mu.Lock()
	k.state = cut
	for conn := range k.conns {
		conn.Close()
	}
	k.mu.Unlock()
	k.wg.Wait()
}

func (k *link) accept() {
	for {
		near, err := k.listener.Accept()
		if err != nil {
			return
		}
		if k.now() == cut {
			near.Close()
			continue
		}
		far, err := k.dial()
		if err != nil {
			near.Close()
			continue
		}
		if !k.hold(near, far) {
			continue
		}
		k.wg.Go(func() { k.pump(far, near, true) })
		k.wg.Go(func() { k.pump(near, far, false) })
	}
}

func (k *link) hold(conns ...net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range conns {
		if k.state == cut {
			c.Close()
			continue
		}
		k.conns[c] = true
	}
	return k.state != cut
}

func (k *link) pump(to, from net.Conn, asking bool) {
	defer func() {
		to.Close()
		from.Close()
		k.mu.Lock()
		delete(k.conns, from)
		k.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		switch c := k.now(); {
		case c == cut:
			return
		case c == frozen, c == deaf && !asking:
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
