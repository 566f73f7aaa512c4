package fleet

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Key is what there is to see of a key: everything but its token.
type Key struct {
	ID         job.ID     `json:"id"` // grows with time
	Name       string     `json:"name"`
	Mark       string     `json:"mark"` // the beginning of the hash of its token
	Tenant     string     `json:"tenant"`
	Role       string     `json:"role"`
	Label      string     `json:"label,omitempty"`  // KEY=VALUE, which all that it is for has; empty: it is for everything
	Policy     string     `json:"policy,omitempty"` // the name of the only policy that its jobs have; empty: any
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	RevokedBy  string     `json:"revoked_by,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"` // to a minute
}
