package oidc

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

// Config configures the issuer and the roles of its users.
type Config struct {
	Issuer   string   // as its tokens name it
	Audience []string // accepted audiences; a token must have one of them
	Rules    []Rule   // the first rule with a group of the user decides
	Claim    string   // the claim with the groups; empty: "groups"
	Skew     time.Duration
	HTTP     *http.Client // optional
}

// maxToken is the maximum length of a JWT in bytes.
const maxToken = 16 << 10

// algorithms are the accepted signature algorithms. None uses a shared secret: otherwise a public
// key could be used as one.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Gate authenticates requests with a JWT of the issuer.
type Gate struct {
	c      Config
	issuer *issuer
}

// New returns a gate. It contacts the issuer only when a token of it arrives. The error wraps
// job.ErrInvalid.
func New(c Config) (*Gate, error) {
	u, err := url.Parse(c.Issuer)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "":
		return nil, job.Invalid("issuer", "%.100q must be a URL such as https://id.example.com, exactly as in the iss claim of tokens", c.Issuer)
	case u.Scheme == "http" && !local(u.Hostname()):
		return nil, job.Invalid("issuer", "%.100q must begin with https: without TLS, anyone on the network path could forge tokens", c.Issuer)
	case len(c.Audience) == 0:
		return nil, job.Invalid("audience", "is required: without it, tokens for other programs would be accepted")
	case len(c.Rules) == 0:
		return nil, job.Invalid("groups", "is required: it maps groups to tenants")
	case c.Skew < 0 || c.Skew > 5*time.Minute:
		return nil, job.Invalid("skew", "must be 0 to 5m, and is %v", c.Skew)
	}
	if c.Claim == "" {
		c.Claim = "groups"
	}
	return &Gate{c: c, issuer: newIssuer(c.Issuer, c.HTTP)}, nil
}

// local reports whether a host is this machine.
func local(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Identify returns the identity of a request with a JWT. Other tokens are not handled here.
func (g *Gate) Identify(r *http.Request) (identity.Identity, error) {
	token, ok := identity.Bearer(r)
	if !ok {
		return identity.Identity{}, identity.ForeignToken("send Authorization: Bearer TOKEN (the CLI reads ASSAY_TOKEN)")
	}
	if !strings.HasPrefix(token, "eyJ") || strings.Count(token, ".") != 2 {
		return identity.Identity{}, identity.ForeignToken("the token is unknown here")
	}
	c, err := g.verify(r.Context(), token, g.c.Audience)
	if err != nil {
		return identity.Identity{}, err
	}
	return g.identity(c)
}

// claims are the claims of a token.
type claims struct {
	jwt.Claims
	Nonce         string `json:"nonce"`
	Email         string `json:"email"`
	EmailVerified any    `json:"email_verified"`
	Username      string `json:"preferred_username"`

	all map[string]any
}

// verify verifies a token: it must be from the issuer, for one of the audiences, and currently
// valid.
func (g *Gate) verify(ctx context.Context, token string, audience []string) (*claims, error) {
	if len(token) > maxToken {
		return nil, unauthorized("it has %d bytes, and the most is %d", len(token), maxToken)
	}
	t, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return nil, unauthorized("its signature algorithm is not one of %v", algorithms)
	}
	var told jwt.Claims
	if t.UnsafeClaimsWithoutVerification(&told) != nil || told.Issuer != g.c.Issuer {
		return nil, unauthorized("its issuer is %.100q, and must be %s", told.Issuer, g.c.Issuer)
	}
	c, err := g.signed(ctx, t)
	if err != nil {
		return nil, err
	}
	return c, g.good(c, audience, time.Now())
}

// signed returns the claims of a token if the issuer signed it.
func (g *Gate) signed(ctx context.Context, t *jwt.JSONWebToken) (*claims, error) {
	head := t.Headers[0]
	keys, err := g.issuer.key(ctx, head.KeyID)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if k.Algorithm != "" && k.Algorithm != head.Algorithm {
			continue
		}
		var c claims
		if t.Claims(k.Key, &c, &c.all) == nil {
			return &c, nil
		}
	}
	return nil, unauthorized("it is not signed with a key of %s", g.c.Issuer)
}

// good reports whether a token is for us and valid now.
func (g *Gate) good(c *claims, audience []string, now time.Time) error {
	switch {
	case !slices.ContainsFunc(c.Audience, func(a string) bool { return slices.Contains(audience, a) }):
		return unauthorized("its audience is %.200q, and must be one of %q", []string(c.Audience), audience)
	case c.Expiry == nil:
		return unauthorized("it has no expiry (exp)")
	case now.After(c.Expiry.Time().Add(g.c.Skew)):
		return unauthorized("it expired at %s", c.Expiry.Time().UTC().Format(time.RFC3339))
	case c.NotBefore != nil && now.Add(g.c.Skew).Before(c.NotBefore.Time()):
		return unauthorized("it is not valid before %s", c.NotBefore.Time().UTC().Format(time.RFC3339))
	case c.Subject == "":
		return unauthorized("it has no subject (sub)")
	}
	return nil
}

func unauthorized(format string, args ...any) error {
	return fmt.Errorf("%w: the JWT is no good here: %s", api.ErrUnauthorized, fmt.Sprintf(format, args...))
}

// identity returns the identity for c by the first matching rule.
func (g *Gate) identity(c *claims) (identity.Identity, error) {
	groups := c.groups(g.c.Claim)
	for _, r := range g.c.Rules {
		if slices.Contains(groups, r.Group) {
			return identity.Identity{Tenant: r.Tenant, Role: r.Role, Name: c.name(), Mark: identity.Mark(sha256.Sum256([]byte(c.Issuer + "\n" + c.Subject)))}, nil
		}
	}
	slog.Debug("sign-in rejected: user is in no group with a tenant", "subject", c.Subject, "groups", groups)
	return identity.Identity{}, fmt.Errorf("%w: %.100q is in no group with a tenant here (the claim %s has %d groups)", job.ErrRefused, c.name(), g.c.Claim, len(groups))
}

// name returns the name of a user in records. An address that the issuer has not verified could
// belong to someone else.
func (c *claims) name() string {
	name := c.Subject
	switch verified := c.EmailVerified; {
	case c.Email != "" && verified != false && verified != "false":
		name = c.Email
	case c.Username != "":
		name = c.Username
	}
	return job.Clip(name, 200)
}

// groups returns the groups of a claim: a list or a single text. The claim is found by its full
// name or by the path of names between its dots.
func (c *claims) groups(name string) (out []string) {
	found, ok := c.all[name]
	if !ok {
		found = c.all
		for part := range strings.SplitSeq(name, ".") {
			m, _ := found.(map[string]any)
			found = m[part]
		}
	}
	switch v := found.(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, x := range v {
			if s, ok := x.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}
