package netrule

import (
	"slices"
	"testing"
)

func TestParseRanges(t *testing.T) {
	t.Parallel()
	if _, err := ParseRanges([]string{"10.0.0.0/8:443", "127.0.0.1:*", "[fd00::/8]:80"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"example.org:443", "*.example.org:443", "10.0.0.0/8", "10.0.0.1/8:443", ""} {
		if _, err := ParseRanges([]string{bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	list := []string{"example.org:443", "10.1.0.0/16:443", "bad", "0.0.0.0/0:443", "1.1.1.1:443", "[::1]:80", "169.254.0.0/16:80"}
	if got := Private(list); !slices.Equal(got, []string{"10.1.0.0/16:443", "[::1]:80", "169.254.0.0/16:80"}) {
		t.Errorf("Private = %v", got)
	}
}

func TestParseHost(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]struct {
		name, prefix string
		at           uint16
		other        bool // and at other ports
	}{
		"nats":             {"nats", "", 1, true},
		"NATS.internal.":   {"nats.internal", "", 1, true},
		"nats:4222":        {"nats", "", 4222, false},
		"10.0.0.0/8":       {"", "10.0.0.0/8", 1, true},
		"10.0.0.7":         {"", "10.0.0.7/32", 1, true},
		"10.0.0.7:5432":    {"", "10.0.0.7/32", 5432, false},
		"fd00::/8":         {"", "fd00::/8", 1, true},
		"fd00::1":          {"", "fd00::1/128", 1, true},
		"[fd00::1]":        {"", "fd00::1/128", 1, true},
		"[fd00::1]:8080":   {"", "fd00::1/128", 8080, false},
		"203.0.113.0/24:*": {"", "203.0.113.0/24", 1, true},
	} {
		h, err := ParseHost(entry)
		prefix := ""
		if h.Range().IsValid() {
			prefix = h.Range().String()
		}
		if err != nil || h.Name() != want.name || prefix != want.prefix || !h.At(want.at) || h.At(65000) != want.other {
			t.Errorf("%s: %+v, %v", entry, h, err)
		}
	}
	for _, bad := range []string{"", ":", "*.example.org", "*", "a b", "10.0.0.1/8", "127.1", "0x7f000001", "::ffff:127.0.0.1", "nats:0", "http://nats"} {
		if h, err := ParseHost(bad); err == nil {
			t.Errorf("%q was accepted as %+v", bad, h)
		}
	}
}

func TestInner(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"localhost": true, "nats": true, "a.localhost": true, "nats.default.svc.cluster.local": true, "metadata.google.internal": true,
		"1.0.0.127.in-addr.arpa": true, "example.org": false, "local.example.org": false, "xlocal": true, "a.xlocal": false,
	} {
		if got := Inner(name); got != want {
			t.Errorf("Inner(%s) = %v", name, got)
		}
	}
}
