package client

import (
	"context"
	"errors"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// KeepBatch prolongs the lease of a batch and returns the batch; job.ErrLost if
// it was abandoned before. Without a lease it only reads.
func (c *Client) KeepBatch(ctx context.Context, id job.ID) (*job.Batch, error) {
	return c.postBatch(ctx, batchPath(id)+"/keepalive")
}

// heard lets the fleet hear of us while we wait for a batch, until stop is called:
// three times in the length of a lease, not at all if the batch has none. What is
// wrong with the batch, who waits for it will see.
func (c *Client) heard(ctx context.Context, id job.ID) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause := time.Duration(0); pause >= 0; {
			select {
			case <-time.After(pause):
				pause = c.keepOnce(ctx, id, max(pause, time.Second))
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// keepOnce returns when to send it again, -1 for never; if it could not be sent,
// that is after retry.
func (c *Client) keepOnce(ctx context.Context, id job.ID, retry time.Duration) time.Duration {
	b, err := c.KeepBatch(ctx, id)
	switch {
	case errors.Is(err, job.ErrUnavailable):
		return retry
	case err != nil || b.Lease <= 0 || b.Done():
		return -1
	}
	return b.Lease.D() / 3
}
