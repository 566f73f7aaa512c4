package store

import (
	"context"
	"time"
)

// DispatchRole is the role of the dispatcher that schedules and reaps for all.
const DispatchRole = "dispatch"

// Leaders lets one of several processes do what need not be done by all. It is for
// thrift, never for safety: a leader that does not know yet that it was replaced
// may act beside the new one.
type Leaders interface {
	// Lead makes holder the leader of a role for ttl from now by the store's clock,
	// if nobody else is, and returns the term, which grows with each change of the
	// holder. Zero: somebody else leads.
	Lead(ctx context.Context, role, holder string, ttl time.Duration) (term int64, err error)
	// Resign ends what Lead began.
	Resign(ctx context.Context, role, holder string) error
}
