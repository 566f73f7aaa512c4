package fleet

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Key describes an API key, without its token.
type Key struct {
	ID         job.ID     `json:"id"` // grows with time
	Name       string     `json:"name"`
	Mark       string     `json:"mark"` // the beginning of the hash of its token
	Tenant     string     `json:"tenant"`
	Role       string     `json:"role"`
	Label      string     `json:"label,omitempty"`  // KEY=VALUE; the key is restricted to objects with this label; empty: not restricted
	Policy     string     `json:"policy,omitempty"` // name of the only policy for its jobs; empty: any
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	RevokedBy  string     `json:"revoked_by,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"` // to a minute
}
