package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/site"
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
	}
}

// Fleets of one machine are reached by no other name than their public one; others by any.
func TestNamesOfFleets(t *testing.T) {
	for args, want := range map[string]site.Guard{
		"": {Local: true}, "--insecure=no-tokens": {Local: true}, "--tokens=t=a,uid:1=a": {Local: true}, "--listen=[::1]:80": {Local: true},
		"--public-url=https://Assay.example:8443/x": {Local: true, Public: "Assay.example"},
		"--tokens=t=a": {}, "--insecure=no-tokens --listen=:80": {}, "--tokens=t=a,uid:1=a --listen=0.0.0.0:80": {},
	} {
		c, err := parse(append(strings.Fields(args), "--database-url=x"), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		g, err := c.gate()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.site(identity.All(g, identity.Tokens{})); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", args, got, err, want)
		}
	}
	c, err := parse([]string{"--public-url=assay.example", "--database-url=x"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.site(identity.Open{}); err == nil || !strings.Contains(err.Error(), "--public-url") {
		t.Errorf("a public URL without a scheme: %v", err)
	}
}
