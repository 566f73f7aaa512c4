package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// CreateKey creates a key. Only this response has its token.
func (c *Client) CreateKey(ctx context.Context, q api.KeyRequest) (out api.NewKey, err error) {
	rq := call{method: http.MethodPost, path: "/v1/keys", once: true} // a retry could create two keys
	if err := rq.json(q); err != nil {
		return out, err
	}
	_, err = c.json(ctx, rq, &out)
	return out, err
}

// Keys lists the keys of a tenant, newest first. An empty tenant means the caller's own; others
// require an operator.
func (c *Client) Keys(ctx context.Context, tenant string) iter.Seq2[fleet.Key, error] {
	return func(yield func(fleet.Key, error) bool) {
		v := url.Values{}
		if tenant != "" {
			v.Set("tenant", tenant)
		}
		for {
			var page api.KeyList
			if _, err := c.json(ctx, get("/v1/keys", v), &page); err != nil {
				yield(fleet.Key{}, err)
				return
			}
			for _, k := range page.Keys {
				if !yield(k, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			v.Set("before", string(page.Next))
		}
	}
}

// Key returns a key without its token.
func (c *Client) Key(ctx context.Context, id job.ID) (out fleet.Key, err error) {
	_, err = c.json(ctx, get("/v1/keys/"+string(id), nil), &out)
	return out, err
}

// RevokeKey revokes a key permanently. The reason is stored with the key.
func (c *Client) RevokeKey(ctx context.Context, id job.ID, reason string) (out fleet.Key, err error) {
	rq := call{method: http.MethodDelete, path: "/v1/keys/" + string(id)}
	if reason != "" {
		rq.query = url.Values{"reason": {reason}}
	}
	_, err = c.json(ctx, rq, &out)
	return out, err
}
