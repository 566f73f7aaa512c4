package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/identity"
)

// A dispatcher is open to everyone only if its operator asks for that.
func TestGateWithoutTokens(t *testing.T) {
	for args, open := range map[string]bool{
		"": false, "--listen=127.0.0.1:80": false, "--tokens=t=a": false, "--tokens=t=a --insecure=no-tokens": false, "--insecure=open-nats": false,
		"--insecure=no-tokens": true, "--insecure=no-tokens --listen=:80": true,
	} {
		c, err := parse(append(strings.Fields(args), "--database-url=x"), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		g, err := c.gate()
		if err != nil || identity.IsOpen(g) != open {
			t.Errorf("%q: open %v, %v, want %v", args, identity.IsOpen(g), err, open)
		}
		if l, local := g.(identity.Local); args == "" && (!local || l[os.Geteuid()] != identity.LocalAdmin || len(l) != 1) {
			t.Errorf("without settings the gate is %#v", g)
		}
		if o, is := g.(identity.Open); is && o.AnyHost != strings.Contains(args, ":80") {
			t.Errorf("%q: accepts any Host: %v", args, o.AnyHost)
		}
	}
}
