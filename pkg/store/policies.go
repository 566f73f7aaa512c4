package store

import (
	"context"
	"encoding/json"
)

// Policies keeps named policies, each tenant's own.
// Admission copies the resolved policy into every job, so changing a stored one
// never changes a job that was accepted before.
type Policies interface {
	// Policy returns a version of a stored policy as it was put, the newest for
	// version 0; job.ErrNotFound if there is none.
	Policy(ctx context.Context, tenant, name string, version int) (json.RawMessage, error)
	// PutPolicy stores a policy as the next version of its name. It does nothing if the newest version is equal. It
	// records the action as in Operations, unless it is nil.
	PutPolicy(ctx context.Context, a *Action, tenant, name string, p json.RawMessage) error
	// Policies lists the newest version of each of the tenant's policies.
	Policies(ctx context.Context, tenant string) ([]StoredPolicy, error)
}
