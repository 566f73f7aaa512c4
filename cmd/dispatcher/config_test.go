package main

import (
	"io"
	"strings"
	"testing"
)

// Without tokens everybody is let in, so strangers must not reach the address. On
// 5ee7338 they did, in the chart by default.
func TestOpenListenersAreRefused(t *testing.T) {
	for _, c := range []struct {
		args string
		ok   bool
	}{
		{"--listen=127.0.0.1:8080", true}, {"--listen=localhost:8080", true}, {"--listen=[::1]:8080", true}, {"", true},
		{"--listen=[::ffff:127.0.0.1]:0", true},
		{"--listen=:8080", false}, {"--listen=0.0.0.0:8080", false}, {"--listen=[::]:8080", false}, {"--listen=10.0.0.1:80", false},
		{"--listen=api.example.org:80", false}, {"--listen=localhost.example.org:80", false},
		{"--listen=:8080 --tokens=t=a", true}, {"--listen=:8080 --oidc-issuer=https://id.example.com --oidc-audience=assay --oidc-groups=g=a", true}, {"--listen=:8080 --insecure=no-tokens", true},
	} {
		_, err := parse(append(strings.Fields(c.args), "--database-url=x"), io.Discard)
		if c.ok && err != nil || !c.ok && (err == nil || !strings.Contains(err.Error(), "--insecure=no-tokens")) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

// A server that believes whoever reaches it is not used by mistake; once, only a line in
// the log said so.
func TestOpenNATSIsRefused(t *testing.T) {
	for _, c := range []struct {
		args string
		ok   bool
	}{
		{"", true}, {"--nats-url=127.0.0.1:4222", true}, {"--nats-url=nats://[::1]:4222,nats://localhost", true},
		{"--nats-url=nats://nats:4222", false}, {"--nats-url=nats:4222", false}, {"--nats-url=tls://10.0.0.1", false},
		{"--nats-url=nats://127.0.0.1:4222,nats://10.0.0.1:4222", false}, {"--nats-url=nats://localhost.example.org:4222", false},
		{"--nats-url=nats://nats:4222 --workers-key=x", true}, {"--nats-url=nats://nats:4222 --insecure=open-nats", true},
		{"--nats-url=nats://a:b@nats:4222", true},
	} {
		_, err := parse(append(strings.Fields(c.args), "--database-url=x"), io.Discard)
		if c.ok && err != nil || !c.ok && (err == nil || !strings.Contains(err.Error(), "--insecure=open-nats")) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for arg, says := range map[string]string{
		"--pools=gpu?exclusive=yes": "--pools: \"gpu?exclusive=yes\": exclusive is none of", "--pools=a,a": "--pools", "--insecure=all": "no-tokens",
		"--spool=1Gi": "spool", "--spool=lots": "--spool", "--body-patience=1ms": "--body-patience",
	} {
		if _, err := parse([]string{arg, "--database-url=x"}, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that names %s", arg, err, says)
		}
	}
}
