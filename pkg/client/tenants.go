package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
)

// Tenants lists tenants with their limits and current work: all for an operator, otherwise the
// caller's own.
func (c *Client) Tenants(ctx context.Context) ([]api.TenantStatus, error) {
	var out api.TenantList
	_, err := c.json(ctx, get("/v1/tenants", nil), &out)
	return out.Tenants, err
}

// Tenant returns one tenant with its limits and current work.
func (c *Client) Tenant(ctx context.Context, name string) (out api.TenantStatus, err error) {
	_, err = c.json(ctx, get("/v1/tenants/"+name, nil), &out)
	return out, err
}

// PutTenant replaces all limits of a tenant with g. It requires an admin. version is the version
// that g was made from, or negative for any. The error is job.ErrStale if the tenant has changed
// since.
func (c *Client) PutTenant(ctx context.Context, name string, g api.TenantGrant, version int64) (out fleet.Tenant, err error) {
	rq := call{method: http.MethodPut, path: "/v1/tenants/" + name, header: http.Header{}}
	if version >= 0 {
		rq.header.Set("If-Match", strconv.Quote(strconv.FormatInt(version, 10)))
	}
	if err := rq.json(g); err != nil {
		return out, err
	}
	_, err = c.json(ctx, rq, &out)
	return out, err
}

// actionValues returns q as parameters of any list of actions.
func actionValues(q fleet.ActionQuery) url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"actor": q.Actor, "action": q.Action, "subject": q.Subject, "tenant": q.Tenant} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return v
}

// Follow yields actions as they are recorded, without gaps, starting after the action with Seq
// after. A negative after means from now on. It reconnects after an error.
func (a Admin) Follow(ctx context.Context, q fleet.ActionQuery, after int64) iter.Seq2[fleet.Action, error] {
	return func(yield func(fleet.Action, error) bool) {
		for {
			rq := get("/v1/admin/actions/events", actionValues(q))
			if after >= 0 {
				rq.header = http.Header{"Last-Event-Id": {strconv.FormatInt(after, 10)}}
			}
			resp, err := a.c.do(ctx, rq)
			if err == nil {
				err = readActions(resp.Body, &after, yield)
				_ = resp.Body.Close()
			}
			switch {
			case errors.Is(err, errUnheard):
				return
			case ctx.Err() != nil:
				err = ctx.Err()
			}
			if err != nil {
				yield(fleet.Action{}, err)
				return
			}
		}
	}
}

// errUnheard means that the caller stopped.
var errUnheard = errors.New("no listener")

// readActions yields the actions of a stream and stores the last number. The end of a stream is not
// an error.
func readActions(r io.Reader, last *int64, yield func(fleet.Action, error) bool) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: ")
		if !ok {
			continue
		}
		var a fleet.Action
		if err := json.Unmarshal([]byte(data), &a); err != nil {
			return fmt.Errorf("read event: %w", err)
		}
		if *last = a.Seq; !yield(a, nil) {
			return errUnheard
		}
	}
}
