package client

import (
	"context"

	"github.com/assay-run/assay/pkg/job"
)

// BatchSummary says how far a batch is and how fast, how its jobs ended, and what is wrong with those that failed. The error
// wraps job.ErrNotFound if there is no such batch.
func (c *Client) BatchSummary(ctx context.Context, id job.ID) (*job.BatchSummary, error) {
	var out job.BatchSummary
	_, err := c.json(ctx, get(batchPath(id)+"/summary", nil), &out)
	return &out, err
}
