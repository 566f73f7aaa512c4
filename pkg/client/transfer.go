package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// Transfer is a tenant on the way from one fleet to another.
type Transfer struct {
	Tenant string
	Key    string // seals the secrets: 32 bytes in base64; "" for a tenant without secrets
	Reason string
}

func (t Transfer) call(action string) call {
	rq := call{method: http.MethodPost, path: "/v1/admin/tenants/" + t.Tenant + "/" + action, query: url.Values{}, header: http.Header{}}
	if t.Key != "" {
		rq.header.Set(api.HeaderTransferKey, t.Key)
	}
	if t.Reason != "" {
		rq.query.Set("reason", t.Reason)
	}
	return rq
}

// ExportTenant writes a tenant to w as NDJSON. It requires an admin. The file is whole if its last
// line has the name "end"; a line "error" has the reason why it is not.
func (a Admin) ExportTenant(ctx context.Context, t Transfer, w io.Writer) error {
	resp, err := a.c.do(ctx, t.call("export"))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("%w: read the export: %w", job.ErrUnavailable, err)
	}
	return nil
}

// ImportTenant imports a file of ExportTenant. It requires an admin. open returns the file from its
// start; it is called again for each retry, which continues after the imported rows.
func (a Admin) ImportTenant(ctx context.Context, t Transfer, open func() (io.Reader, error)) (done fleet.Action, err error) {
	rq := t.call("import")
	rq.header.Set("Content-Type", api.NDJSON)
	rq.body = open
	_, err = a.c.json(ctx, rq, &done)
	return done, err
}
