package identity

import (
	"errors"
	"net"
	"os"
	"testing"
)

// TestUserOfClosedSockets checks that a socket that its program has closed belongs to no user: the kernel reports
// user 0 for it.
func TestUserOfClosedSockets(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // a host may lack IPv6
		}
		t.Cleanup(func() { _ = l.Close() })
		for name, end := range map[string]func(client, server *net.TCPConn) error{
			"client closes":      func(client, _ *net.TCPConn) error { return client.Close() },
			"client half closes": func(client, _ *net.TCPConn) error { return client.CloseWrite() },
			"server closes":      func(_, server *net.TCPConn) error { return server.CloseWrite() },
			"both close": func(client, server *net.TCPConn) error {
				return errors.Join(client.CloseWrite(), server.Close(), client.Close())
			},
		} {
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			source, dest := server.RemoteAddr().(*net.TCPAddr).AddrPort(), server.LocalAddr().(*net.TCPAddr).AddrPort()
			if uid, err := userOf(source, dest); err != nil || uid != os.Geteuid() {
				t.Errorf("%s, %s: user %d of an established connection: %v", address, name, uid, err)
			}
			if err := end(client.(*net.TCPConn), server.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			if uid, err := userOf(source, dest); err == nil {
				t.Errorf("%s, %s: user %d of a closed connection, want an error", address, name, uid)
			}
			_, _ = client.Close(), server.Close()
		}
	}
}
