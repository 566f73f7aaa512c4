package testenv

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Ports for servers that restart at the same address. They are below the ephemeral ports of
// systems. Another process could take a released ephemeral port at once, and a test would then talk
// to the server of another test.
const (
	firstPort    = 10240
	portsOfOne   = 320 // of one test binary
	portsOfAll   = maxSlots * portsOfOne
	ephemeralMin = 32768
)

var _ = [ephemeralMin - firstPort - portsOfAll]struct{}{} // they are below the ephemeral ports

// Address returns a loopback address for a server of this test. No other test gets it, in this or any other running
// test binary, even of another source tree.
func Address(t testing.TB) string {
	t.Helper()
	Needs(t, "an address of its own") // other users' test binaries may have marked it
	defer env.use(t)()
	if env.ports == nil {
		dir, err := env.slotIn(filepath.Join(os.TempDir(), "assay-test-ports-"+strconv.Itoa(os.Getuid())))
		if err != nil {
			t.Fatal(err)
		}
		slot, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		for i := range portsOfOne {
			env.ports = append(env.ports, firstPort+slot*portsOfOne+i)
		}
	}
	for len(env.ports) > 0 {
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(env.ports[0]))
		env.ports = env.ports[1:]
		l, err := net.Listen("tcp", at)
		if err != nil {
			continue // taken by another user
		}
		_ = l.Close()
		return at
	}
	t.Fatalf("all %d ports of this test binary are in use", portsOfOne)
	return ""
}
