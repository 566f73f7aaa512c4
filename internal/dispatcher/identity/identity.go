package identity

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Role is the permissions of an identity. Each role includes the ones before it.
type Role int

// The roles.
const (
	None      Role = iota // no permissions
	Reader                // reads the data of its tenant
	Submitter             // submits, cancels, and puts policies and secrets of its tenant
	Operator              // reads the whole fleet, and acts on it
	Admin                 // manages keys and tenants, and deletes
)

var roleNames = []string{"none", "reader", "submitter", "operator", "admin"}

// RoleNames returns the names of the roles that an identity can have.
func RoleNames() []string { return slices.Clone(roleNames[Reader:]) }

// ParseRole parses the name of a role. The error wraps job.ErrInvalid.
func ParseRole(name string) (Role, error) {
	if i := slices.Index(roleNames, name); i > 0 {
		return Role(i), nil
	}
	return None, job.Invalid("role", "%.40q must be one of %s", name, strings.Join(RoleNames(), ", "))
}

// String returns the name of the role.
func (r Role) String() string {
	if r < 0 || int(r) >= len(roleNames) {
		return roleNames[None]
	}
	return roleNames[r]
}

// Identity is the sender of a request.
type Identity struct {
	Tenant string
	Role   Role
	// Name appears in records of actions. It is the tenant for a token, TENANT/NAME for a key, and the user's name
	// for a token of an issuer.
	Name string
	// Mark distinguishes the tokens of one name. It does not help to guess a token.
	Mark string
	// Until is the expiry; zero: none.
	Until time.Time
	// Life ends, with an api.ErrUnauthorized as its cause, when the identity is revoked or expires; nil: never. Its
	// running requests end, too.
	Life context.Context
	// Held restricts the identity to a part of its tenant's data.
	Held Held
}

// Held is the restriction of a key; the zero value is none.
type Held struct {
	Label  Label  // of all its jobs and batches
	Policy string // name of its jobs' only policy; empty: any
}

// Label is a label of a job; the zero value is none.
type Label struct{ Key, Value string }

// String returns KEY=VALUE, or "" for none.
func (l Label) String() string {
	if l == (Label{}) {
		return ""
	}
	return l.Key + "=" + l.Value
}

// ParseLabel parses KEY=VALUE, or an empty text as no label. The error wraps job.ErrInvalid.
func ParseLabel(text string) (l Label, err error) {
	key, value, ok := strings.Cut(text, "=")
	if text != "" && (!ok || key == "") {
		return l, job.Invalid("label", "%.80q must be KEY=VALUE", text)
	}
	return Label{key, value}, nil
}

// Gate authenticates requests.
type Gate interface {
	// Identify returns the sender of r. The error wraps api.ErrUnauthorized for an unknown sender, with ErrForeignToken if
	// another gate may know it. It wraps job.ErrUnavailable if the gate cannot decide now.
	Identify(r *http.Request) (Identity, error)
}

// DefaultTenant is the tenant of all jobs on a fleet without tokens.
const DefaultTenant = "default"

// Open admits every request as an admin of DefaultTenant.
type Open struct{}

// Identify implements Gate.
func (Open) Identify(*http.Request) (Identity, error) { return LocalAdmin, nil }
