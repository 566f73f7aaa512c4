package store

import (
	"context"
	"time"
)

// DispatchRole is the role of the dispatcher that schedules and reaps for all.
const DispatchRole = "dispatch"

// Leaders elects one of several processes for work that not all need to do. It saves work and gives no safety: a
// replaced leader may act beside the new one until it notices.
type Leaders interface {
	// Lead makes holder the leader of a role for ttl from now by the store's clock, if no other process is, and returns
	// the term, which grows with each change of the holder. It returns zero if another process leads.
	Lead(ctx context.Context, role, holder string, ttl time.Duration) (term int64, err error)
	// Resign ends the leadership of holder.
	Resign(ctx context.Context, role, holder string) error
}
