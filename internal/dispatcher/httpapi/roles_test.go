package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

// nowhere returns an address of a route for objects that do not exist.
func nowhere(t *testing.T, pattern string) (method, path string) {
	t.Helper()
	method, path, _ = strings.Cut(pattern, " ")
	return method, filled(t, path, map[string]string{
		"id": string(job.NewID()), "other": string(job.NewID()), "name": "none", "digest": "sha256:" + strings.Repeat("0", 64), "path": "none", "stream": "stdout", "worker": "none", "tenant": "none", "n": "0", "token": "none",
	})
}

// filled returns a path with values for its parameters. It fails without a value.
func filled(t *testing.T, path string, values map[string]string) string {
	t.Helper()
	return parameter.ReplaceAllStringFunc(strings.Replace(path, "...}", "}", 1), func(p string) string {
		v, ok := values[strings.Trim(p, "{}")]
		if !ok {
			t.Errorf("%s: no value for %s", path, p)
		}
		return v
	})
}

// Each operation rejects exactly the callers with a lower role and those without a token.
func TestRolesOfEveryRoute(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "r=a:reader,s=a:submitter,o=a:operator,m=a:admin"))
	tokens := map[string]identity.Role{"": identity.None, "r": identity.Reader, "s": identity.Submitter, "o": identity.Operator, "m": identity.Admin}
	for _, rt := range httpapi.Routes() {
		for token, role := range tokens {
			method, path := nowhere(t, rt.Pattern)
			code, p := f.send(token, method, path, nil)
			refused := 0
			switch {
			case rt.Role > identity.None && token == "":
				refused = http.StatusUnauthorized
			case role < rt.Role:
				refused = http.StatusForbidden
			}
			got := code == http.StatusForbidden || code == http.StatusUnauthorized
			if refused != 0 && code != refused || refused == 0 && got {
				t.Errorf("%s, which is for a %s, answers a %s: %d %s", rt.Pattern, rt.Role, role, code, p.Detail)
			}
		}
	}
}

// Each operation rejects keys with restrictions that it does not enforce. Operations for operators reject all
// restricted keys.
func TestRoutesThatDoNotHoldAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *parts) {
		c.Auth = heldTokens{
			"label":  {Label: identity.Label{Key: "run", Value: "7"}},
			"policy": {Policy: "strict"},
			"both":   {Label: identity.Label{Key: "run", Value: "7"}, Policy: "strict"},
		}
		c.DropIns = []string{"piston"}
	})
	needs := map[string]web.Holds{"label": web.Label, "policy": web.Policy, "both": web.Held}
	routes := append(httpapi.Routes(), web.At("POST /mcp", identity.Submitter, nil), web.At("POST /piston/api/v2/execute", identity.Submitter, nil))
	for _, rt := range routes {
		if rt.Role >= identity.Operator && rt.Holds != 0 {
			t.Errorf("%s is for operators, who are not held", rt.Pattern)
		}
		for token, need := range needs {
			method, path := nowhere(t, rt.Pattern)
			code, p := f.send(token, method, path, nil)
			want := rt.Role > identity.None && rt.Holds&need != need
			if strings.HasPrefix(rt.Pattern, "GET /v1/policies/{") && need != web.Label {
				want = true // a policy other than the key's
			}
			if got := code == http.StatusForbidden; got != want {
				t.Errorf("%s, which holds to %b, answers one who is held to %s: %d %s", rt.Pattern, rt.Holds, token, code, p.Detail)
			}
		}
	}
}

// heldTokens are admins with different restrictions.
type heldTokens map[string]identity.Held

func (h heldTokens) Identify(r *http.Request) (identity.Identity, error) {
	token, _ := identity.Bearer(r)
	return identity.Identity{Tenant: "a", Role: identity.Admin, Name: token, Held: h[token]}, nil
}
