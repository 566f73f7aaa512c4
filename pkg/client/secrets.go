package client

import (
	"context"
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
)

// Secrets lists the stored secrets without their values.
func (c *Client) Secrets(ctx context.Context) ([]fleet.StoredSecret, error) {
	var out api.SecretList
	_, err := c.json(ctx, get("/v1/secrets", nil), &out)
	return out.Secrets, err
}

// PutSecret stores or replaces a secret. Policies refer to it in env.secrets.
func (c *Client) PutSecret(ctx context.Context, name, value string) error {
	rq := call{method: http.MethodPut, path: "/v1/secrets/" + name}
	if err := rq.json(api.SecretValue{Value: value}); err != nil {
		return err
	}
	_, err := c.json(ctx, rq, nil)
	return err
}

// DeleteSecret deletes a secret.
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	_, err := c.json(ctx, call{method: http.MethodDelete, path: "/v1/secrets/" + name}, nil)
	return err
}
