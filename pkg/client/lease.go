package client

import (
	"context"
	"errors"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// KeepBatch renews the lease of a batch and returns the batch. The error is job.ErrLost if the
// batch was abandoned. Without a lease it only reads.
func (c *Client) KeepBatch(ctx context.Context, id job.ID) (*job.Batch, error) {
	return c.postBatch(ctx, batchPath(id)+"/keepalive")
}

// keepLease renews the lease of a batch in the background until stop is called, three times per lease
// duration. It does nothing for a batch without a lease. It ignores errors, which the waiting call
// also gets.
func (c *Client) keepLease(ctx context.Context, id job.ID) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause := time.Duration(0); pause >= 0; {
			select {
			case <-time.After(pause):
				pause = c.renewLease(ctx, id, max(pause, time.Second))
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// renewLease renews the lease and returns the delay until the next time, -1 for never, or retry after
// an error.
func (c *Client) renewLease(ctx context.Context, id job.ID, retry time.Duration) time.Duration {
	b, err := c.KeepBatch(ctx, id)
	switch {
	case errors.Is(err, job.ErrUnavailable):
		return retry
	case err != nil || b.Lease <= 0 || b.Done():
		return -1
	}
	return b.Lease.D() / 3
}
