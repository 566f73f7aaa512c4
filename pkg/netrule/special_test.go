package netrule

import "testing"

func TestCovers(t *testing.T) {
	t.Parallel()
	r, err := ParseRules([]string{"pypi.org:443", "*.corp.test:*", "0.0.0.0/0:443", "10.1.0.0/16:*", "[2001:4860::/32]:443"})
	if err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]bool{
		"pypi.org:443": true, "pypi.org:80": false, "pypi.org:*": false, "*.pypi.org:443": false, "a.pypi.org:443": false,
		"a.corp.test:1": true, "*.a.corp.test:*": true, "*.corp.test:80": true, "corp.test:80": false, "xcorp.test:80": false,
		"8.8.8.8:443": true, "8.8.0.0/16:443": true, "8.8.8.8:53": false, "0.0.0.0/0:443": true, "0.0.0.0/0:*": false,
		"127.0.0.1:443": false, "127.0.0.0/8:443": false, "169.254.169.254:443": false, "169.254.0.0/16:443": false, "192.168.1.1:443": false,
		"10.1.2.3:80": true, "10.1.0.0/16:80": true, "10.0.0.0/8:80": false, "10.2.0.1:80": false,
		"[2001:4860::1]:443": true, "[2001:4861::1]:443": false, "[::1]:443": false,
	} {
		rule, err := ParseRule(entry)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Covers(rule); got != want {
			t.Errorf("%s: covered %v, want %v", entry, got, want)
		}
	}
}
