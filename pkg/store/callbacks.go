package store

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Callbacks stores the undelivered callbacks of batches. A callback is stored with its batch and survives its sender.
type Callbacks interface {
	// TakeCallbacks leases due callbacks to the caller: no other sender gets them before the lease ends. Tenants take
	// turns. It looks at a bounded number of tenants and returns the position for the next call. Its cost depends on
	// the callbacks returned, not on the number that are due.
	TakeCallbacks(ctx context.Context, q CallbackQuery) (tries []CallbackTry, next int64, err error)
	// OpenCallbacks counts the callbacks of a tenant that are neither delivered nor given up, up
	// to MaxOpenCallbacks.
	OpenCallbacks(ctx context.Context, tenant string) (int, error)
	// SettleCallback records the end of a try. It does not change a callback that was taken again or is settled.
	SettleCallback(ctx context.Context, t CallbackTry, e CallbackEnd) error
}

// MaxOpenCallbacks is how many callbacks of a tenant may be neither delivered nor given up.
const MaxOpenCallbacks = 10_000

// CallbackQuery selects callbacks to take.
type CallbackQuery struct {
	N      int           // at most
	Share  int           // of one tenant at most; 0: any number
	Except []string      // tenants to skip
	Lease  time.Duration // until they are due again, unless they are settled
	After  int64         // as an earlier call returned it; 0: from the first tenant
}

// CallbackTry is one try at telling, under a lease.
type CallbackTry struct {
	job.Callback
	Tenant   string
	Batch    job.ID
	Delivery string
	Try      int           // from 1
	Age      time.Duration // since the batch was done
}

// CallbackEnd is how a try ended: delivered, given up for good, or to be made
// again after a pause.
type CallbackEnd struct {
	Delivered, GivenUp bool
	Again              time.Duration
	Error              string // for the tenant to read; empty if delivered
}
