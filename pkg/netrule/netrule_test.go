package netrule

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseRule(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{
		"example.org:443", "*.example.org:443", "EXAMPLE.org.:443", "192.0.2.7:5432", "192.0.2.0/24:*", "[2001:db8::1]:443",
		"[2001:db8::/32]:443", "xn--bcher-kva.example:80", "_srv.example.org:1", "localhost:8080",
	} {
		if _, err := ParseRule(ok); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for _, bad := range []string{
		"", ":", "example.org", "example.org:", "example.org:0", "example.org:65536", "example.org:0443", "example.org:+1", "example.org:http",
		"*:443", "*.*.org:443", "a.*.org:443", "*example.org:443", "exa mple.org:443", "-a.org:443", "a..org:443", "https://example.org:443",
		"example.org/x:443", "127.1:80", "0x7f000001:80", "017700000001:80", "2130706433:80", "*.1:80", "192.0.2.7/24:80", "192.0.2.0/33:80",
		"2001:db8::1:443", "[192.0.2.1]:80", "[::ffff:192.0.2.1]:80", "[fe80::1%eth0]:80", "[2001:db8::1/32]:443", "[::1]", "bücher.example:80",
		strings.Repeat("a", 64) + ".org:1", strings.Repeat("a.", 127) + "org:1", "a@example.org:1",
	} {
		if _, err := ParseRule(bad); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	r, err := ParseRules([]string{"example.org:443", "*.example.net:*", "10.1.0.0/16:80", "[fd00::1]:80"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		port uint16
		want bool
	}{
		{"example.org", 443, true}, {"example.org", 80, false}, {"a.example.org", 443, false},
		{"a.b.example.net", 1, true}, {"example.net", 1, false}, {"xexample.net", 1, false}, {"10.1.0.1", 80, false},
	} {
		if got := r.AllowsName(c.name, c.port); got != c.want {
			t.Errorf("AllowsName(%s, %d) = %v", c.name, c.port, got)
		}
	}
	for _, c := range []struct {
		addr, block string
		want        bool
	}{
		{"10.1.2.3", "10.0.0.0/8", true}, {"10.2.0.1", "10.0.0.0/8", false}, {"fd00::1", "fc00::/7", true}, {"10.1.2.3", "10.1.2.0/24", false},
	} {
		if got := r.Holds(netip.MustParseAddr(c.addr), 80, netip.MustParsePrefix(c.block)); got != c.want {
			t.Errorf("Holds(%s, 80, %s) = %v", c.addr, c.block, got)
		}
	}
	if !Any().AllowsName("x", 1) || !Any().AllowsAddr(netip.MustParseAddr("8.8.8.8"), 1) {
		t.Error("Any allows nothing")
	}
	if (Rules{}).AllowsName("x", 1) {
		t.Error("the zero list allows")
	}
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"example.org:443", "*.a:1", "[::1]:1", "1.2.3.0/24:*", "0x1:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRule(s)
		if err == nil && (r.name == "") == !r.prefix.IsValid() {
			t.Errorf("%q is neither a name nor a range, or both: %+v", s, r)
		}
	})
}
