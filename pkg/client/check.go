package client

import (
	"context"
	"net/http"

	"github.com/assay-run/assay/api"
)

// Check checks Python programs without running them: at most 1,000, and 7.75 MiB of JSON in total.
// The results are in the order of the programs. A program that does not compile is a result, not an
// error.
func (c *Client) Check(ctx context.Context, req api.CheckRequest) (*api.CheckReport, error) {
	rq := call{method: http.MethodPost, path: "/v1/check"}
	if err := rq.json(req); err != nil {
		return nil, err
	}
	var out api.CheckReport
	if _, err := c.json(ctx, rq, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
