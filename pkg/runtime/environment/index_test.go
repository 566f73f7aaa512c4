package environment

import "testing"

// TestIndexWithoutTLS checks that pip trusts the host of an operator's http:// index. Otherwise pip ignores
// an index without TLS on another machine, and no package was found.
func TestIndexWithoutTLS(t *testing.T) {
	for url, trusted := range map[string]string{
		"https://pypi.org/simple": "", "http://mirror.example/simple": "mirror.example", "http://index:8000/simple": "index:8000",
	} {
		s := &Store{cfg: Config{Index: Index{URL: url}}}
		plan, err := s.plan(&pipRun{online: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.Policy.Env.Set["PIP_TRUSTED_HOST"]; got != trusted {
			t.Errorf("%s: pip trusts %q, want %q", url, got, trusted)
		}
	}
}

func TestIndexRules(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://pypi.org/simple": "pypi.org:443", "http://127.0.0.1:8080/simple": "127.0.0.1:8080", "http://[::1]/simple": "[::1]:80",
	} {
		if got, err := (Index{URL: url}).rules(); err != nil || got[0] != want {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	for _, bad := range []string{"", "pypi.org", "file:///x", "https://a:b@pypi.org/simple", "ftp://pypi.org"} {
		if _, err := (Index{URL: bad}).rules(); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
	if _, err := (Index{URL: "https://pypi.org", Allow: []string{"x"}}).rules(); err == nil {
		t.Error("a bad rule was accepted")
	}
}
