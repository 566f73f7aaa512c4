package account

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// maxGrant is the largest request, in bytes.
const maxGrant = 256 << 10

// Tenants serves the routes of tenants.
type Tenants struct {
	Admin *admin.Admin
	Queue func(ctx context.Context) ([]store.QueueGroup, error) // cached state of the queue
	Who   func(r *http.Request) admin.Actor
}

// Routes returns the routes of tenants. Callers below operator see only their own tenant.
func (s *Tenants) Routes() []web.Route {
	return []web.Route{
		web.At("GET /v1/tenants", identity.Reader, s.list),
		web.At("GET /v1/tenants/{name}", identity.Reader, s.show),
		web.At("PUT /v1/tenants/{name}", identity.Admin, s.put),
	}
}

func (s *Tenants) list(w http.ResponseWriter, r *http.Request) error {
	queue, err := s.Queue(r.Context())
	if err != nil {
		return err
	}
	if web.Identity(r).Role >= identity.Operator {
		all, err := s.Admin.Tenants(r.Context(), queue)
		if err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, all)
	}
	own, err := s.Admin.TenantStatus(r.Context(), web.Tenant(r), queue)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, api.TenantList{Tenants: []api.TenantStatus{own}})
}

// show responds with 404 about other tenants to callers below operator.
func (s *Tenants) show(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if web.Identity(r).Role < identity.Operator && name != web.Tenant(r) {
		return web.NotFound("tenant %.80q", name)
	}
	queue, err := s.Queue(r.Context())
	if err != nil {
		return err
	}
	found, err := s.Admin.TenantStatus(r.Context(), name, queue)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", tagOf(found.Tenant))
	return web.WriteJSON(w, http.StatusOK, found)
}

func (s *Tenants) put(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if !identity.ValidName(name) {
		return job.Invalid("name", "%.80q must be 1 to 63 letters, digits, - and _", name)
	}
	version, err := ifMatch(r)
	if err != nil {
		return err
	}
	if err := web.WantJSON(r); err != nil {
		return err
	}
	raw, err := web.ReadBytes(w, r, maxGrant)
	if err != nil {
		return err
	}
	var q api.TenantGrant
	if err := job.Decode(raw, "", &q); err != nil {
		return err
	}
	now, err := s.Admin.PutTenant(r.Context(), s.Who(r), name, q, version)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", tagOf(now))
	return web.WriteJSON(w, http.StatusOK, now)
}

func tagOf(t store.Tenant) string { return strconv.Quote(strconv.FormatInt(t.Version, 10)) }

// ifMatch returns the version in If-Match; nil for any.
func ifMatch(r *http.Request) (*int64, error) {
	text := r.Header.Get("If-Match")
	if text == "" || text == "*" {
		return nil, nil
	}
	version, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil || version < 0 {
		return nil, job.Invalid("If-Match", "%.40q must be the version of the tenant, as the ETag of an answer has it", text)
	}
	return &version, nil
}
