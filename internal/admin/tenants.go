package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/tenants"
	"github.com/assay-run/assay/pkg/store"
)

// PutTenant has a tenant be granted what q says, and nothing else, at once. version is that which who asks has seen; nil: any.
// job.ErrStale if it is another by now.
func (a *Admin) PutTenant(ctx context.Context, who Who, name string, q api.TenantGrant, version *int64) (store.Tenant, error) {
	t, err := tenants.Check(store.Tenant{Name: name, Weight: q.Weight, MaxRunning: q.MaxRunning, LabelCaps: q.LabelCaps, Ceiling: q.Ceiling})
	if err != nil {
		return t, err
	}
	var now store.Tenant
	_, err = a.onTenant(ctx, who, "put tenant", name, q.Reason, func(done *store.Action) (err error) {
		now, err = a.Store.Grant(ctx, done, t, store.GrantIf{Version: version})
		return err
	})
	return now, err
}

// Tenants are those that are known, and those that have something in queue, by name.
func (a *Admin) Tenants(ctx context.Context, queue []store.QueueGroup) (api.TenantList, error) {
	known, err := a.Store.Tenants(ctx)
	if err != nil {
		return api.TenantList{}, fmt.Errorf("list tenants: %w", err)
	}
	out := api.TenantList{Tenants: []api.TenantStatus{}}
	for _, t := range known {
		out.Tenants = append(out.Tenants, statusOf(t, queue))
	}
	slices.SortFunc(out.Tenants, func(a, b api.TenantStatus) int { return strings.Compare(a.Tenant.Name, b.Tenant.Name) })
	return out, nil
}

// TenantStatus is one of them; one that was never heard of has the defaults, and version 0.
func (a *Admin) TenantStatus(ctx context.Context, name string, queue []store.QueueGroup) (api.TenantStatus, error) {
	t, err := a.Store.Tenant(ctx, name)
	return statusOf(t, queue), err
}

// statusOf adds up what a tenant has in queue.
func statusOf(t store.Tenant, queue []store.QueueGroup) api.TenantStatus {
	out := api.TenantStatus{Tenant: t}
	for _, g := range queue {
		if g.Tenant == t.Name {
			out.Queued, out.Dispatched, out.Running = out.Queued+g.Queued, out.Dispatched+g.Dispatched, out.Running+g.Running
			out.AtLeast = cmp.Or(out.AtLeast, g.AtLeast)
		}
	}
	return out
}
