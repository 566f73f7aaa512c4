package callback

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
)

// TestSignatureIsTheStandards checks the example of the Standard Webhooks specification.
func TestSignatureIsTheStandards(t *testing.T) {
	t.Parallel()
	k, err := keyOf("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Signature(k, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// noCallbacks is a store without open callbacks.
type noCallbacks struct{ Store }

func (noCallbacks) OpenCallbacks(context.Context, string) (int, error) { return 0, nil }

func TestCheck(t *testing.T) {
	t.Parallel()
	s, err := New(Config{}, noCallbacks{}, secrets{"acme/hook": key, "acme/short": "0123", "acme/broken": "whsec_*"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ url, secret, want string }{
		{"https://example.org/done", "hook", ""},
		{"http://example.org:8080/done?batch=1", "", ""},
		{"https://93.184.216.34/", "", ""},
		{"https://[2606:2800:220:1::1]/", "", ""},
		{"", "", "callback.url"},
		{"example.org/done", "", "callback.url"},
		{"ftp://example.org/", "", "callback.url"},
		{"http:///done", "", "callback.url"},
		{"http://%zz/", "", "callback.url"},
		{"https://user:pass@example.org/", "", "secret_ref"},
		{"https://example.org/#x", "", "fragment"},
		{"https://example.org:0/", "", "port"},
		{"https://" + strings.Repeat("a", job.MaxCallbackURL), "", "longer"},
		{"http://127.0.0.1/", "", "--egress-private"},
		{"http://127.1/", "", "plain address"},
		{"http://0x7f000001/", "", "plain address"},
		{"http://2130706433/", "", "plain address"},
		{"http://[::1]:8080/", "", "--egress-private"},
		{"http://[::ffff:127.0.0.1]/", "", "--egress-private"},
		{"http://[fe80::1%25eth0]/", "", "--egress-private"},
		{"http://10.1.2.3/", "", "--egress-private"},
		{"http://169.254.169.254/latest/meta-data", "", "--egress-private"},
		{"http://0.0.0.0/", "", "--egress-private"},
		{"http://a b/", "", "callback.url"},
		{"https://example.org/", "none", "does not exist"},
		{"https://example.org/", "short", "too short"},
		{"https://example.org/", "broken", "base64"},
	} {
		err := s.Check(t.Context(), "acme", job.Callback{URL: c.url, SecretRef: c.secret})
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q, %q: %v, want %q", c.url, c.secret, err, c.want)
		}
	}
	if err := s.Check(t.Context(), "other", job.Callback{URL: "https://example.org/", SecretRef: "hook"}); err == nil {
		t.Error("another tenant's secret signs")
	}
}

// TestAllow checks that exactly the addresses and ports that the operator allows are open. Wider ranges do not open
// special addresses.
func TestAllow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allow, addr string
		ok          bool
	}{
		{"", "93.184.216.34", true}, {"", "10.1.2.3", false}, {"", "::ffff:10.1.2.3", false}, {"", "64:ff9b::a01:203", false},
		{"10.0.0.0/8:443", "10.1.2.3", true}, {"10.0.0.0/8:80", "10.1.2.3", false}, {"10.2.0.0/16:443", "10.1.2.3", false},
		{"0.0.0.0/0:443", "10.1.2.3", false}, {"169.254.0.0/16:443", "169.254.169.254", false}, {"127.0.0.1:*", "127.0.0.1", true},
	} {
		var rules netrule.Rules
		if c.allow != "" {
			var err error
			if rules, err = netrule.ParseRanges([]string{c.allow}); err != nil {
				t.Fatal(err)
			}
		}
		if err := judge(rules, addr(c.addr), 443); (err == nil) != c.ok {
			t.Errorf("allow %q, %s: %v", c.allow, c.addr, err)
		}
	}
	for _, bad := range []string{"example.org:443", "*.example.org:443", "10.0.0.0/8", "10.0.0.1/8:443"} {
		if _, err := netrule.ParseRanges([]string{bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
