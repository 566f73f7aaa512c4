package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Tokens maps the hashes of configured bearer tokens to identities. With hashes, neither the time of a look-up nor a
// dump reveals a token.
type Tokens map[[sha256.Size]byte]Identity

// Identify implements Gate.
func (t Tokens) Identify(r *http.Request) (Identity, error) {
	token, ok := Bearer(r)
	if !ok {
		return Identity{}, foreignToken(noToken)
	}
	who, ok := t[sha256.Sum256([]byte(token))]
	if !ok {
		return Identity{}, foreignToken("the token is unknown here")
	}
	return who, nil
}

// Bearer returns the bearer token of r. The name of the scheme may have any case.
func Bearer(r *http.Request) (token string, ok bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, ok && strings.EqualFold(scheme, "Bearer")
}

// Mark returns the first 8 hex digits of a token's hash.
func Mark(hash [sha256.Size]byte) string { return hex.EncodeToString(hash[:4]) }

// ReadTokens parses pairs of the form TOKEN=TENANT or TOKEN=TENANT:ROLE, separated by commas or lines. The default
// role is submitter. "@FILE" reads the pairs from a file, in which lines that start with # are comments. "uid:NUMBER"
// in place of a token is a user of this machine (see Local). Without pairs it returns Open. The error wraps
// job.ErrInvalid and never contains a token.
func ReadTokens(text string) (Gate, error) {
	if path, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, job.Invalid("tokens", "cannot be read: %v", err)
		}
		text = string(b)
		if strings.TrimSpace(text) == "" {
			return nil, job.Invalid("tokens", "%s is empty, which would admit every client; add tokens", path)
		}
	}
	if strings.TrimSpace(text) == "" {
		return Open{}, nil
	}
	out, local := Tokens{}, Local{}
	for i, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if pair = strings.TrimSpace(pair); pair == "" || pair[0] == '#' {
			continue
		}
		if err := add(out, local, pair); err != nil {
			return nil, job.Invalid("tokens", "entry %d must be TOKEN=TENANT or TOKEN=TENANT:ROLE, the tenant of letters, digits, - and _, the role one of %s",
				i+1, strings.Join(RoleNames(), ", "))
		}
	}
	if len(local) > 0 {
		return All(out, local), nil
	}
	return out, nil
}

// localUser is the prefix of a Unix user id in place of a token.
const localUser = "uid:"

// add parses one pair. Names of tenants have no colon. The higher role of a repeated token counts.
func add(t Tokens, l Local, pair string) error {
	token, tenant, ok := strings.Cut(pair, "=")
	tenant, name, given := strings.Cut(tenant, ":")
	role := Submitter
	if given {
		var err error
		if role, err = ParseRole(name); err != nil {
			return err
		}
	}
	if !ok || token == "" || !ValidName(tenant) {
		return job.ErrInvalid
	}
	if number, ok := strings.CutPrefix(token, localUser); ok {
		uid, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return job.ErrInvalid
		}
		if had, twice := l[int(uid)]; !twice || had.Role < role {
			l[int(uid)] = Identity{Tenant: tenant, Role: role, Name: tenant}
		}
		return nil
	}
	hash := sha256.Sum256([]byte(token))
	if had, twice := t[hash]; !twice || had.Role < role {
		t[hash] = Identity{Tenant: tenant, Role: role, Name: tenant, Mark: Mark(hash)}
	}
	return nil
}

// ValidName reports whether s can name a tenant or a policy.
func ValidName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return s != "" && len(s) <= 63 && strings.Trim(s, letters) == ""
}
