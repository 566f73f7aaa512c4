package httpapi

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// Authenticator says whose request it is.
type Authenticator interface {
	// Tenant returns the tenant of r; the error wraps api.ErrUnauthorized if
	// there is none.
	Tenant(r *http.Request) (string, error)
	// Operator says whether whoever sent r may see the fleet itself: its hosts and
	// its metrics, which tell of all tenants.
	Operator(r *http.Request) bool
}

// DefaultTenant owns everything on a fleet without tokens.
const DefaultTenant = "default"

// Open lets everybody in as DefaultTenant.
type Open struct{}

// Tenant returns DefaultTenant.
func (Open) Tenant(*http.Request) (string, error) { return DefaultTenant, nil }

// Operator is true: there is nobody else.
func (Open) Operator(*http.Request) bool { return true }

// Tokens maps bearer tokens to tenants. Tokens are kept as hashes, so that
// neither the time of a look-up nor a dump of it tells anything about them.
type Tokens map[[sha256.Size]byte]string

// Tenant returns the tenant of the request's bearer token.
func (t Tokens) Tenant(r *http.Request) (string, error) {
	token, ok := bearer(r)
	if !ok {
		return "", fmt.Errorf("%w: send Authorization: Bearer TOKEN (the CLI reads ASSAY_TOKEN)", api.ErrUnauthorized)
	}
	tenant, ok := t[sha256.Sum256([]byte(token))]
	if !ok {
		return "", fmt.Errorf("%w: the token is unknown here", api.ErrUnauthorized)
	}
	return tenant, nil
}

// bearer returns the token that r is sent with. The name of the scheme is in any case.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, ok && strings.EqualFold(scheme, "Bearer")
}

// passwordIsToken has a token that is sent as a password be taken as one: an address such as http://any:TOKEN@host/ is the
// only place for it in clients that have no setting for headers.
func passwordIsToken(r *http.Request) {
	if _, token, ok := r.BasicAuth(); ok {
		r.Header.Set("Authorization", "Bearer "+token)
	}
}

// operated are tokens of tenants, some of which are an operator's.
type operated struct{ tenants, operators Tokens }

func (o operated) Tenant(r *http.Request) (string, error) {
	if tenant, err := o.operators.Tenant(r); err == nil {
		return tenant, nil
	}
	return o.tenants.Tenant(r)
}

func (o operated) Operator(r *http.Request) bool {
	_, err := o.operators.Tenant(r)
	return err == nil
}

// Secret is text that no log and no dump shows.
type Secret string

const redacted = "REDACTED"

// String hides the text.
func (Secret) String() string { return redacted }

// GoString hides the text from %#v.
func (Secret) GoString() string { return redacted }

// LogValue hides the text from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the text from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// operatorSuffix after its tenant says that a token is an operator's. No name of a tenant has a colon.
const operatorSuffix = ":operator"

// NewAuthenticator reads "token=tenant" pairs, separated by commas or lines; who holds the token of a
// "token=tenant:operator" may see the fleet itself besides. "@FILE" reads them from a file, in which
// lines that start with # are comments. No pairs let everybody in. The error wraps job.ErrInvalid and
// never shows a token.
func NewAuthenticator(pairs Secret) (Authenticator, error) {
	text := string(pairs)
	if path, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, job.Invalid("tokens", "cannot be read: %v", err)
		}
		text = string(b)
		if strings.TrimSpace(text) == "" {
			return nil, job.Invalid("tokens", "%s is empty: that would let everybody in", path)
		}
	}
	if strings.TrimSpace(text) == "" {
		return Open{}, nil
	}
	return readTokens(text)
}

// readTokens reads one list.
func readTokens(text string) (Authenticator, error) {
	out := operated{Tokens{}, Tokens{}}
	for i, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if pair = strings.TrimSpace(pair); pair == "" || pair[0] == '#' {
			continue
		}
		token, tenant, ok := strings.Cut(pair, "=")
		tenant, operates := strings.CutSuffix(tenant, operatorSuffix)
		if !ok || token == "" || !validName(tenant) {
			return nil, job.Invalid("tokens", "entry %d must be TOKEN=TENANT or TOKEN=TENANT%s, the tenant of letters, digits, - and _", i+1, operatorSuffix)
		}
		into := out.tenants
		if operates {
			into = out.operators
		}
		into[sha256.Sum256([]byte(token))] = tenant
	}
	return out, nil
}

// validName reports whether s can name a tenant or a policy.
func validName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return s != "" && len(s) <= 63 && strings.Trim(s, letters) == ""
}
