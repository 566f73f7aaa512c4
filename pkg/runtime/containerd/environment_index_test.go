package containerd

import "testing"

// pip ignores an index without TLS on another machine unless it is told to trust its
// host: an operator's http:// index had no packages.
func TestIndexWithoutTLS(t *testing.T) {
	for url, trusted := range map[string]string{
		"https://pypi.org/simple": "", "http://mirror.example/simple": "mirror.example", "http://index:8000/simple": "index:8000",
	} {
		e := &environments{rt: &Runtime{cfg: Config{Index: Index{URL: url}}}}
		plan, err := e.plan(&pipRun{online: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.Policy.Env.Set["PIP_TRUSTED_HOST"]; got != trusted {
			t.Errorf("%s: pip trusts %q, want %q", url, got, trusted)
		}
	}
}
