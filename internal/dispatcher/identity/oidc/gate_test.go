package oidc_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/identity/oidc"
	"github.com/assay-run/assay/internal/dispatcher/identity/oidc/oidctest"
	"github.com/assay-run/assay/pkg/job"
)

type fixture struct {
	*testing.T
	issuer *oidctest.Issuer
	gate   *oidc.Gate
}

func start(t *testing.T, change ...func(*oidc.Config)) *fixture {
	t.Helper()
	f := &fixture{T: t, issuer: oidctest.Start()}
	t.Cleanup(f.issuer.Close)
	rules, err := oidc.ReadRules("ops=ops:admin,team-a=a,team-b=b:reader")
	if err != nil {
		t.Fatal(err)
	}
	c := oidc.Config{Issuer: f.issuer.URL, Audience: []string{"assay", "assay-too"}, Rules: rules, Skew: 30 * time.Second}
	for _, ch := range change {
		ch(&c)
	}
	if f.gate, err = oidc.New(c); err != nil {
		t.Fatal(err)
	}
	f.gate.SetPause(0)
	return f
}

func (f *fixture) identify(token string) (identity.Identity, error) {
	r := httptest.NewRequest(http.MethodGet, "/v1/jobs", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return f.gate.Identify(r)
}

// in returns claims with groups.
func in(groups any, more ...any) map[string]any {
	out := map[string]any{"groups": groups}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

func TestWhoIsLetIn(t *testing.T) {
	f := start(t)
	for name, c := range map[string]struct {
		claims map[string]any
		want   identity.Identity
	}{
		"one group":                    {in([]string{"team-a"}, "email", "u@example.com"), identity.Identity{Tenant: "a", Role: identity.Submitter, Name: "u@example.com"}},
		"a text for groups":            {in("team-b", "preferred_username", "u"), identity.Identity{Tenant: "b", Role: identity.Reader, Name: "u"}},
		"two, and the first rule":      {in([]string{"team-b", "team-a", "ops"}), identity.Identity{Tenant: "ops", Role: identity.Admin, Name: "u-1"}},
		"an address nobody verified":   {in("team-a", "email", "ceo@example.com", "email_verified", false), identity.Identity{Tenant: "a", Role: identity.Submitter, Name: "u-1"}},
		"several audiences":            {in("team-a", "aud", []string{"other", "assay-too"}), identity.Identity{Tenant: "a", Role: identity.Submitter, Name: "u-1"}},
		"over, but within the skew":    {in("team-a", "exp", time.Now().Add(-10*time.Second).Unix()), identity.Identity{Tenant: "a", Role: identity.Submitter, Name: "u-1"}},
		"not yet, but within the skew": {in("team-a", "nbf", time.Now().Add(20*time.Second).Unix()), identity.Identity{Tenant: "a", Role: identity.Submitter, Name: "u-1"}},
	} {
		got, err := f.identify(f.issuer.Sign(c.claims))
		if len(got.Mark) != 8 {
			t.Errorf("%s: the mark is %q", name, got.Mark)
		}
		if got.Mark = ""; err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// TestWhoIsNotLetIn checks that a token with any defect is rejected, and that the error names the defect.
func TestWhoIsNotLetIn(t *testing.T) {
	f := start(t)
	late, soon := time.Now().Add(-time.Minute).Unix(), time.Now().Add(time.Minute).Unix()
	good := in("team-a")
	other := oidctest.Start()
	defer other.Close()
	for name, c := range map[string]struct {
		token, says string
		is          error
	}{
		"none":                   {"", "send Authorization", api.ErrUnauthorized},
		"no JWT":                 {"of-a", "unknown here", api.ErrUnauthorized},
		"over":                   {f.issuer.Sign(in("team-a", "exp", late)), "expired at", api.ErrUnauthorized},
		"without an end":         {f.issuer.Sign(in("team-a", "exp", nil)), "exp", api.ErrUnauthorized},
		"not yet good":           {f.issuer.Sign(in("team-a", "nbf", soon)), "not valid before", api.ErrUnauthorized},
		"for others":             {f.issuer.Sign(in("team-a", "aud", "other")), "its audience", api.ErrUnauthorized},
		"for nobody":             {f.issuer.Sign(in("team-a", "aud", nil)), "its audience", api.ErrUnauthorized},
		"of nobody":              {f.issuer.Sign(in("team-a", "sub", nil)), "sub", api.ErrUnauthorized},
		"another issuer":         {other.Sign(good), "its issuer is", api.ErrUnauthorized},
		"another issuer's key":   {other.Sign(in("team-a", "iss", f.issuer.URL)), "not signed with a key", api.ErrUnauthorized},
		"unsigned":               {unsigned(f.issuer.URL), "signature algorithm", api.ErrUnauthorized},
		"signed with the public": {symmetric(t, f.issuer), "signature algorithm", api.ErrUnauthorized},
		"changed":                {changed(f.issuer.Sign(good)), "not signed with a key", api.ErrUnauthorized},
		"too long":               {f.issuer.Sign(in(strings.Repeat("x", 20<<10))), "the most is", api.ErrUnauthorized},
		"in no group":            {f.issuer.Sign(map[string]any{}), "in no group with a tenant", job.ErrRefused},
		"in others' groups":      {f.issuer.Sign(in([]string{"team-c", "team-a "})), "in no group with a tenant", job.ErrRefused},
		"groups that are none":   {f.issuer.Sign(in(map[string]any{"team-a": true})), "in no group with a tenant", job.ErrRefused},
	} {
		who, err := f.identify(c.token)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || who != (identity.Identity{}) {
			t.Errorf("%s: %+v, %v, want an error that says %q", name, who, err, c.says)
		}
	}
}

func part(v any) string {
	raw, _ := json.Marshal(v)
	return base64.RawURLEncoding.EncodeToString(raw)
}

func unsigned(issuer string) string {
	return part(map[string]any{"alg": "none", "typ": "JWT"}) + "." +
		part(map[string]any{"iss": issuer, "aud": "assay", "sub": "u", "exp": time.Now().Add(time.Hour).Unix(), "groups": "ops"}) + "."
}

// symmetric signs with the public key as if it were a shared secret.
func symmetric(t *testing.T, s *oidctest.Issuer) string {
	t.Helper()
	public, err := s.Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: public}, (&jose.SignerOptions{}).WithHeader("kid", s.Public().KeyID))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(map[string]any{"iss": s.URL, "aud": "assay", "sub": "u", "exp": time.Now().Add(time.Hour).Unix(), "groups": "ops"}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// changed replaces a group in a token.
func changed(token string) string {
	parts := strings.Split(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(raw), "team-a", "ops", 1)))
	return strings.Join(parts, ".")
}

// TestRotatedKeysArePickedUp checks that new keys of the issuer are accepted without a restart, and old ones
// rejected.
func TestRotatedKeysArePickedUp(t *testing.T) {
	f := start(t)
	old := f.issuer.Sign(in("team-a"))
	for _, alg := range []jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.ES256} {
		f.issuer.Rotate(alg)
		if who, err := f.identify(f.issuer.Sign(in("team-a"))); err != nil || who.Tenant != "a" {
			t.Errorf("after a rotation to %s: %+v, %v", alg, who, err)
		}
	}
	if who, err := f.identify(old); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("a token of a key that is gone: %+v, %v", who, err)
	}
}

// TestKeysThatWereTakenBack checks that a withdrawn key is soon rejected.
func TestKeysThatWereTakenBack(t *testing.T) {
	f := start(t)
	old := f.issuer.Sign(in("team-a"))
	if _, err := f.identify(old); err != nil {
		t.Fatal(err)
	}
	f.issuer.Rotate(jose.ES256)
	f.gate.Age(11 * time.Minute)
	if who, err := f.identify(old); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("%+v, %v", who, err)
	}
}

// TestTheIssuerIsAway checks that a gate starts without its issuer and returns job.ErrUnavailable until it answers.
// Known keys stay valid while the issuer is away.
func TestTheIssuerIsAway(t *testing.T) {
	f := start(t)
	f.issuer.Away.Store(true)
	if who, err := f.identify(f.issuer.Sign(in("team-a"))); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("away from the start: %+v, %v", who, err)
	}
	if _, err := f.identify("of-a"); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("a token that is no JWT, while the issuer is away: %v", err)
	}
	f.issuer.Away.Store(false)
	if _, err := f.identify(f.issuer.Sign(in("team-a"))); err != nil {
		t.Errorf("back: %v", err)
	}
	f.issuer.Away.Store(true)
	f.gate.Age(time.Hour)
	if _, err := f.identify(f.issuer.Sign(in("team-a"))); err != nil {
		t.Errorf("away again: %v", err)
	}
	f.issuer.Rotate(jose.RS256)
	if _, err := f.identify(f.issuer.Sign(in("team-a"))); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("a new key, while the issuer is away: %v", err)
	}
}

// TestTheIssuerIsNotFlooded checks that many tokens with unknown keys do not cause a request to the issuer each.
func TestTheIssuerIsNotFlooded(t *testing.T) {
	f := start(t)
	f.gate.SetPause(time.Hour)
	other := oidctest.Start()
	defer other.Close()
	other.Rotate(jose.ES256) // to another key ID
	for range 50 {
		if _, err := f.identify(other.Sign(in("team-a", "iss", f.issuer.URL))); !errors.Is(err, api.ErrUnauthorized) {
			t.Fatal(err)
		}
	}
	if n := f.issuer.Asks.Load(); n != 1 {
		t.Errorf("the issuer was asked for its keys %d times, want 1", n)
	}
}

func TestGroupsAreWhereTheClaimSays(t *testing.T) {
	for claim, claims := range map[string]map[string]any{
		"realm_access.roles":         {"realm_access": map[string]any{"roles": []string{"team-a"}}},
		"https://example.com/groups": {"https://example.com/groups": []string{"team-a"}},
	} {
		f := start(t, func(c *oidc.Config) { c.Claim = claim })
		if who, err := f.identify(f.issuer.Sign(claims)); err != nil || who.Tenant != "a" {
			t.Errorf("%s: %+v, %v", claim, who, err)
		}
		if who, err := f.identify(f.issuer.Sign(in("team-a"))); !errors.Is(err, job.ErrRefused) {
			t.Errorf("%s: groups elsewhere: %+v, %v", claim, who, err)
		}
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	good := oidc.Config{Issuer: "https://id.example.com", Audience: []string{"assay"}, Rules: []oidc.Rule{{Group: "g", Tenant: "a"}}}
	for says, change := range map[string]func(*oidc.Config){
		"issuer":   func(c *oidc.Config) { c.Issuer = "id.example.com" },
		"https":    func(c *oidc.Config) { c.Issuer = "http://id.example.com" },
		"audience": func(c *oidc.Config) { c.Audience = nil },
		"groups":   func(c *oidc.Config) { c.Rules = nil },
		"skew":     func(c *oidc.Config) { c.Skew = time.Hour },
	} {
		c := good
		change(&c)
		if _, err := oidc.New(c); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for _, text := range []string{"", "a", "=a", "g=", "g=a:owner", "g=a b", "g=a,,=b", "@/nowhere"} {
		if got, err := oidc.ReadRules(text); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	got, err := oidc.ReadRules("cn=ops=ops:operator, b=b")
	if err != nil || len(got) != 2 || got[0] != (oidc.Rule{Group: "cn=ops", Tenant: "ops", Role: identity.Operator}) || got[1].Role != identity.Submitter {
		t.Errorf("%+v, %v", got, err)
	}
}
