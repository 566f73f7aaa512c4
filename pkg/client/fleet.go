package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
)

// Workers lists the connected workers. The list is empty without an operator's token.
func (c *Client) Workers(ctx context.Context) ([]fleet.Worker, error) {
	out, err := c.Fleet(ctx)
	return out.Workers, err
}

// Fleet returns the connected workers, for operators, and their sums by pool.
func (c *Client) Fleet(ctx context.Context) (out api.WorkerList, err error) {
	_, err = c.json(ctx, get("/v1/workers", nil), &out)
	return out, err
}

// FleetOf returns the connected workers that a selector chooses, to operators, and the sums of all by pool. Names are not
// for the server to choose by: see WorkerSelector.Chooses.
func (c *Client) FleetOf(ctx context.Context, s fleet.WorkerSelector) (out api.WorkerList, err error) {
	q := url.Values{}
	for name, value := range map[string]string{"pool": s.Pool, "version": s.Version, "state": string(s.State)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for k, v := range s.Labels {
		q.Add("label", k+"="+v)
	}
	for {
		var page api.WorkerList
		if _, err = c.json(ctx, get("/v1/workers", q), &page); err != nil {
			return out, err
		}
		out.Workers, out.Pools = append(out.Workers, page.Workers...), page.Pools
		if page.Next == "" {
			return out, nil
		}
		q.Set("after", page.Next)
	}
}

// Languages returns the catalogue of programming languages for programs in an image. An empty name
// means the default image.
func (c *Client) Languages(ctx context.Context, image string) (out api.LanguageList, err error) {
	q := url.Values{}
	if image != "" {
		q.Set("image", image)
	}
	_, err = c.json(ctx, get("/v1/languages", q), &out)
	return out, err
}

// Now returns the fleet's current activity: see api.Fleet.
func (c *Client) Now(ctx context.Context) (out api.Fleet, err error) {
	_, err = c.json(ctx, get("/v1/fleet", nil), &out)
	return out, err
}

// Policies lists the stored policies.
func (c *Client) Policies(ctx context.Context) ([]fleet.StoredPolicy, error) {
	var out api.PolicyList
	_, err := c.json(ctx, get("/v1/policies", nil), &out)
	return out.Policies, err
}

// Policy returns a stored policy as the client stored it.
func (c *Client) Policy(ctx context.Context, name string) (json.RawMessage, error) {
	var raw json.RawMessage
	_, err := c.json(ctx, get("/v1/policies/"+name, nil), &raw)
	return raw, err
}

// PutPolicy stores or replaces a policy. Already accepted jobs keep their policies.
func (c *Client) PutPolicy(ctx context.Context, name string, policy json.RawMessage) error {
	rq := call{method: http.MethodPut, path: "/v1/policies/" + name}
	if err := rq.json(policy); err != nil {
		return err
	}
	_, err := c.json(ctx, rq, nil)
	return err
}

// Explain returns the mechanisms that would enforce a policy. policy is an object, or a JSON string
// with the name of a stored one.
func (c *Client) Explain(ctx context.Context, policy json.RawMessage) (*api.Explanation, error) {
	return c.ExplainFor(ctx, "", policy)
}

// ExplainFor is Explain for one kind of program: python, command, tests, session or shell. The kind
// "" means the kinds with the most enforcement.
func (c *Client) ExplainFor(ctx context.Context, program string, policy json.RawMessage) (*api.Explanation, error) {
	rq, err := post("/v1/policies/explain", nil, policy)
	if err != nil {
		return nil, err
	}
	if program != "" {
		rq.query = url.Values{"program": {program}}
	}
	var out api.Explanation
	_, err = c.json(ctx, rq, &out)
	return &out, err
}

// Ready reports whether the fleet can accept a job now.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.json(ctx, get("/readyz", nil), nil)
	return err
}
