package testenv

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Ports for servers that listen where they listened before. They lie below those
// that systems give to connections and to whoever asks for any port: one of these
// may be taken by somebody else as soon as it is free, and a test would talk to
// another test's server.
const (
	firstPort    = 10240
	portsOfOne   = 320 // of one test binary
	portsOfAll   = maxSlots * portsOfOne
	ephemeralMin = 32768
)

var _ = [ephemeralMin - firstPort - portsOfAll]struct{}{} // they do lie below

// Address returns a loopback address for a server of this test. No other test is given it, in this test binary or in
// one that runs at the same time, whatever tree it is of.
func Address(t testing.TB) string {
	t.Helper()
	Needs(t, "an address of its own") // which test binaries of other users may have marked
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
			continue // somebody else's
		}
		_ = l.Close()
		return at
	}
	t.Fatalf("all %d ports of this test binary are in use", portsOfOne)
	return ""
}
