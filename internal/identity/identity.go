package identity

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Role is how much somebody may do. Each may do what those before it may.
type Role int

// The roles.
const (
	None      Role = iota // may do nothing
	Reader                // sees what its tenant has
	Submitter             // submits, cancels, and puts policies and secrets of its tenant
	Operator              // sees the whole fleet, and acts on it
	Admin                 // makes keys and tenants, and deletes
)

var roleNames = []string{"none", "reader", "submitter", "operator", "admin"}

// RoleNames are the names of the roles that somebody can have.
func RoleNames() []string { return slices.Clone(roleNames[Reader:]) }

// ParseRole reads the name of a role. The error wraps job.ErrInvalid.
func ParseRole(name string) (Role, error) {
	if i := slices.Index(roleNames, name); i > 0 {
		return Role(i), nil
	}
	return None, job.Invalid("role", "%.40q must be one of %s", name, strings.Join(RoleNames(), ", "))
}

// String is the name of the role.
func (r Role) String() string {
	if r < 0 || int(r) >= len(roleNames) {
		return roleNames[None]
	}
	return roleNames[r]
}

// Identity is who sent a request.
type Identity struct {
	Tenant string
	Role   Role
	// Name is who it is, as records of what was done show it: the tenant for a token, TENANT/NAME for a key, the user whom
	// an issuer of tokens vouches for.
	Name string
	// Mark tells the tokens of one name apart, and is of no use to who wants to guess one.
	Mark string
	// Until is when it ends; zero: it does not.
	Until time.Time
	// Life is over, with an api.ErrUnauthorized as its cause, as soon as it is not let in any more; nil: it always is. What it
	// has under way ends as well.
	Life context.Context
	// Held is what it is held to of what its tenant has.
	Held Held
}

// Held is the part of what a tenant has that a key is for; its zero value, all of it.
type Held struct {
	Label  Label  // which all jobs and batches have that it makes or sees
	Policy string // the name of the only policy that its jobs have; empty: any
}

// Label is one that jobs have; its zero value, none.
type Label struct{ Key, Value string }

// String is KEY=VALUE.
func (l Label) String() string {
	if l == (Label{}) {
		return ""
	}
	return l.Key + "=" + l.Value
}

// ParseLabel reads KEY=VALUE; of nothing, no label. The error wraps job.ErrInvalid.
func ParseLabel(text string) (l Label, err error) {
	key, value, ok := strings.Cut(text, "=")
	if text != "" && (!ok || key == "") {
		return l, job.Invalid("label", "%.80q must be KEY=VALUE", text)
	}
	return Label{key, value}, nil
}

// Gate says who sends requests.
type Gate interface {
	// Identify returns who sent r. The error wraps api.ErrUnauthorized if nobody did who is known here, ErrNotMine as well if
	// another gate may know them, and job.ErrUnavailable if that cannot be found out now.
	Identify(r *http.Request) (Identity, error)
}

// DefaultTenant owns everything on a fleet without tokens.
const DefaultTenant = "default"

// Open lets everyone in as an admin of DefaultTenant.
type Open struct{}

// Identify implements Gate.
func (Open) Identify(*http.Request) (Identity, error) { return LocalAdmin, nil }
