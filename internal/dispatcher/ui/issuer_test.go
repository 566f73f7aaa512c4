package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui"
)

// vouching is an issuer that accepts one code.
type vouching struct{}

type attempt struct{ State string }

func (vouching) Begin(context.Context) (string, attempt, error) {
	return "https://issuer.example/authorize?state=s1", attempt{"s1"}, nil
}

func (vouching) Finish(_ context.Context, a attempt, state, code string) (identity.Identity, time.Time, error) {
	if a.State != state || code != "good" {
		return identity.Identity{}, time.Time{}, fmt.Errorf("%w: not this one", api.ErrUnauthorized)
	}
	return identity.Identity{Tenant: "one", Role: identity.Operator, Name: "ada@example.org"}, time.Now().Add(time.Hour), nil
}

// The page and its API accept a person from an issuer until the identity expires.
func TestIssuer(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	f := newFleet(t, func(c *ui.Config) {
		c.Issuer = ui.IssuerOf(vouching{})
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	f.submit("one", "of-one", nil, python("1"))
	for back, want := range map[string]int{"?state=s1&code=bad": http.StatusUnauthorized, "?state=other&code=good": http.StatusUnauthorized, "?state=s1&code=good": http.StatusSeeOther} {
		b := f.browser()
		if resp, _ := b.get("/ui/signin/callback" + back); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("who never began is let in: %d", resp.StatusCode)
		}
		if resp, _ := b.get("/ui/signin/issuer?to=/ui/audit"); resp.Header.Get("Location") != "https://issuer.example/authorize?state=s1" {
			t.Fatalf("begin: %d %v", resp.StatusCode, resp.Header)
		}
		resp, _ := b.get("/ui/signin/callback" + back)
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", back, resp.StatusCode, want)
		}
		if want != http.StatusSeeOther {
			continue
		}
		if resp.Header.Get("Location") != "/ui/audit" {
			t.Errorf("sent to %s", resp.Header.Get("Location"))
		}
		b.page("/ui/audit")
		if resp, _ := b.get("/v1/jobs"); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("the cookie is good for the API itself: %d", resp.StatusCode)
		}
		later.Store(int64(2 * time.Hour))
		if resp, _ := b.get("/ui/audit"); resp.StatusCode != http.StatusSeeOther {
			t.Errorf("let in when the issuer does not vouch any more: %d", resp.StatusCode)
		}
		later.Store(0)
	}
}
