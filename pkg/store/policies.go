package store

import (
	"context"
	"encoding/json"
)

// Policies keeps named policies, each tenant's own, and each tenant's ceiling.
// Admission copies the resolved policy into every job, so changing a stored one
// never changes a job that was accepted before.
type Policies interface {
	// Policy returns a stored policy as it was put; job.ErrNotFound if there is
	// none of that name.
	Policy(ctx context.Context, tenant, name string) (json.RawMessage, error)
	// PutPolicy stores or replaces a policy.
	PutPolicy(ctx context.Context, tenant, name string, p json.RawMessage) error
	// Ceiling returns the most that the tenant may ask for; nil if there is no
	// limit.
	Ceiling(ctx context.Context, tenant string) (json.RawMessage, error)
}
