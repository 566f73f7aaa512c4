package store

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Callbacks keeps what is still to be told about batches that are done. It is made
// with the batch, and survives whoever was about to send it.
type Callbacks interface {
	// TakeCallbacks hands out up to n callbacks that are due: nobody else gets
	// them before the lease is over. Tenants take turns.
	TakeCallbacks(ctx context.Context, n int, lease time.Duration) ([]CallbackTry, error)
	// SettleCallback records how a try ended. One that was taken again meanwhile,
	// or is settled already, stays as it is.
	SettleCallback(ctx context.Context, t CallbackTry, e CallbackEnd) error
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
