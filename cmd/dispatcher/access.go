package main

import (
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/identity/oidc"
	"github.com/assay-run/assay/internal/dispatcher/ui"
	"github.com/assay-run/assay/internal/site"
)

// access holds the settings of TLS and of authentication besides tokens.
type access struct {
	TLSCert string `name:"tls-cert" env:"ASSAY_TLS_CERT" placeholder:"FILE" help:"Certificate chain of the API, in PEM, reloaded when it changes. Without it, --listen serves plain HTTP."`
	TLSKey  string `name:"tls-key" env:"ASSAY_TLS_KEY" placeholder:"FILE" help:"Private key of --tls-cert, in PEM."`

	Issuer       string         `name:"oidc-issuer" env:"ASSAY_OIDC_ISSUER" placeholder:"URL" help:"OpenID Connect issuer whose JWTs are accepted as bearer tokens besides --tokens, exactly as in their iss claim, such as https://id.example.com/realm (default: none)."`
	Audience     []string       `name:"oidc-audience" env:"ASSAY_OIDC_AUDIENCE" placeholder:"NAME" help:"Accepted audiences (aud) of JWTs, separated by commas."`
	Groups       string         `name:"oidc-groups" env:"ASSAY_OIDC_GROUPS" placeholder:"GROUP=TENANT" help:"Tenants of groups, as GROUP=TENANT[:ROLE], separated by commas, or @FILE with one per line. ROLE defaults to submitter. The first entry that matches applies; users without a match are rejected."`
	Claim        string         `name:"oidc-claim" env:"ASSAY_OIDC_CLAIM" default:"groups" help:"Claim of a JWT with the groups: a name, or a dotted path such as realm_access.roles."`
	ClientID     string         `name:"oidc-client-id" env:"ASSAY_OIDC_CLIENT_ID" help:"Client ID of the web page at the issuer, for sign-in; its redirect URI is --public-url plus /ui/signin/callback. Without it, users sign in with tokens."`
	ClientSecret httpapi.Secret `name:"oidc-client-secret" env:"ASSAY_OIDC_CLIENT_SECRET" help:"Client secret, if the issuer requires one."`
	AuditAge     time.Duration  `name:"audit-retention" env:"ASSAY_AUDIT_RETENTION" default:"8760h" help:"Time to keep the audit log of operator actions and of changes to tenants, policies, secrets and keys. 0 keeps it forever."`
	PublicURL    string         `name:"public-url" env:"ASSAY_PUBLIC_URL" placeholder:"URL" help:"URL of this fleet in browsers, such as https://assay.example.com. A dispatcher that admits its user without a token rejects Host headers other than this one and localhost."`
}

// oidcSkew is the largest difference between the issuer's clock and ours.
const oidcSkew = time.Minute

// check reports settings that lack their counterparts.
func (a *access) check() error {
	switch {
	case (a.TLSCert == "") != (a.TLSKey == ""):
		return fmt.Errorf("--tls-cert and --tls-key: give both, or neither")
	case a.AuditAge != 0 && a.AuditAge < 24*time.Hour:
		return fmt.Errorf("--audit-retention: %v is less than a day; 0: records are kept", a.AuditAge)
	case a.Issuer == "" && (len(a.Audience) > 0 || a.Groups != "" || a.ClientID != ""):
		return fmt.Errorf("--oidc-issuer: is not given, and --oidc-audience, --oidc-groups or --oidc-client-id is")
	}
	gate, err := a.jwts()
	if err == nil && gate != nil {
		_, err = a.signIn(gate)
	}
	return err
}

// jwts returns the gate for JWTs, or nil if none are accepted.
func (a *access) jwts() (*oidc.Gate, error) {
	if a.Issuer == "" {
		return nil, nil
	}
	rules, err := oidc.ReadRules(a.Groups)
	if err != nil {
		return nil, fmt.Errorf("--oidc-%w", err)
	}
	gate, err := oidc.New(oidc.Config{Issuer: a.Issuer, Audience: a.Audience, Rules: rules, Claim: a.Claim, Skew: oidcSkew})
	if err != nil {
		return nil, fmt.Errorf("--oidc-%w", err)
	}
	return gate, nil
}

// signIn returns the sign-in at the issuer, or nil if it is disabled.
func (a *access) signIn(gate *oidc.Gate) (*oidc.SignIn, error) {
	if a.ClientID == "" {
		return nil, nil
	}
	s, err := oidc.NewSignIn(gate, a.ClientID, string(a.ClientSecret), a.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return s, nil
}

// issuer returns the page's sign-in besides tokens, or nil if there is none.
func (a *access) issuer() (ui.Issuer, error) {
	gate, err := a.jwts()
	if err != nil || gate == nil {
		return nil, err
	}
	s, err := a.signIn(gate)
	if err != nil || s == nil {
		return nil, err
	}
	return ui.IssuerOf(s), nil
}

// gate returns the gate for requests: tokens, and JWTs of an issuer. Without either, it admits the
// user of this process, or every client if the operator requests that.
func (c *config) gate() (identity.Gate, error) {
	tokens, err := identity.ReadTokens(string(c.Tokens))
	if err != nil {
		return nil, fmt.Errorf("--tokens: %w", err)
	}
	jwts, err := c.Access.jwts()
	if err != nil {
		return nil, err
	}
	if !identity.IsOpen(tokens) {
		if jwts != nil {
			return identity.All(tokens, jwts), nil
		}
		return tokens, nil
	}
	switch {
	case jwts != nil:
		return jwts, nil
	case c.insecure("no-tokens"):
		return identity.Open{}, nil
	}
	return identity.Local{os.Geteuid(): identity.LocalAdmin}, nil
}

// site returns what decides about requests of browsers. A fleet of one machine is reached by its
// address, as localhost, or by the name of --public-url.
func (c *config) site(g identity.Gate) (site.Guard, error) {
	guard := site.Guard{Local: loopback(c.Listen) && identity.NeedsNoToken(g)}
	if c.Access.PublicURL != "" {
		u, err := url.Parse(c.Access.PublicURL)
		if err != nil || u.Hostname() == "" {
			return guard, fmt.Errorf("--public-url: %q is not an address such as https://assay.example.com", c.Access.PublicURL)
		}
		guard.Public = u.Hostname()
	}
	return guard, nil
}

// certificate returns the certificate of --listen, or nil without TLS.
func (a *access) certificate() (*certFiles, error) {
	if a.TLSCert == "" {
		return nil, nil
	}
	f, err := openCert(a.TLSCert, a.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	return f, nil
}
