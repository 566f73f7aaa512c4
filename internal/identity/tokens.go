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

// Tokens are bearer tokens from the configuration. They are kept as hashes, so that neither the time of a look-up nor a
// dump of it tells anything about them.
type Tokens map[[sha256.Size]byte]Identity

// Identify returns whose bearer token the request is sent with.
func (t Tokens) Identify(r *http.Request) (Identity, error) {
	token, ok := Bearer(r)
	if !ok {
		return Identity{}, notMine(noToken)
	}
	who, ok := t[sha256.Sum256([]byte(token))]
	if !ok {
		return Identity{}, notMine("the token is unknown here")
	}
	return who, nil
}

// Bearer returns the token that r is sent with. The name of the scheme is in any case.
func Bearer(r *http.Request) (token string, ok bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, ok && strings.EqualFold(scheme, "Bearer")
}

// Mark is the beginning of a token's hash.
func Mark(hash [sha256.Size]byte) string { return hex.EncodeToString(hash[:4]) }

// ReadTokens reads "token=tenant" pairs, separated by commas or lines, whose holders are submitters of the tenant; those
// of "token=tenant:ROLE" have that role. "@FILE" reads them from a file, in which lines that start with # are comments.
// In place of a token, "uid:NUMBER" is a user of this machine (see Local). No pairs are an Open gate. The error wraps
// job.ErrInvalid and never shows a token.
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

// localUser begins the number of a Unix user in place of a token.
const localUser = "uid:"

// add reads one pair. No name of a tenant has a colon.
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
