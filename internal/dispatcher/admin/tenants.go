package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/store"
)

// PutTenant replaces the settings of a tenant. It returns job.ErrStale if the tenant's version is not the given one;
// nil matches any.
func (a *Admin) PutTenant(ctx context.Context, who Actor, name string, q api.TenantGrant, version *int64) (store.Tenant, error) {
	t, err := checkTenant(store.Tenant{Name: name, Weight: q.Weight, MaxRunning: q.MaxRunning, LabelCaps: q.LabelCaps, Ceiling: q.Ceiling})
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

// Tenants returns the known tenants, sorted by name, with their queues and quotas.
func (a *Admin) Tenants(ctx context.Context, queue []store.QueueGroup) (api.TenantList, error) {
	known, err := a.Store.Tenants(ctx)
	if err != nil {
		return api.TenantList{}, fmt.Errorf("list tenants: %w", err)
	}
	of, err := a.statuses(ctx, queue)
	if err != nil {
		return api.TenantList{}, err
	}
	out := api.TenantList{Tenants: []api.TenantStatus{}}
	for _, t := range known {
		out.Tenants = append(out.Tenants, of(t))
	}
	slices.SortFunc(out.Tenants, func(a, b api.TenantStatus) int { return strings.Compare(a.Tenant.Name, b.Tenant.Name) })
	return out, nil
}

// TenantStatus returns one tenant. An unused name has the defaults, and version 0.
func (a *Admin) TenantStatus(ctx context.Context, name string, queue []store.QueueGroup) (api.TenantStatus, error) {
	t, err := a.Store.Tenant(ctx, name)
	if err != nil {
		return api.TenantStatus{}, err
	}
	of, err := a.statuses(ctx, queue)
	if err != nil {
		return api.TenantStatus{}, err
	}
	return of(t), nil
}

// statuses returns a function that adds the queue and quotas to a tenant.
func (a *Admin) statuses(ctx context.Context, queue []store.QueueGroup) (of func(store.Tenant) api.TenantStatus, err error) {
	usage, err := a.Store.Usage(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the batches and sessions of tenants: %w", err)
	}
	queues := map[string]fleet.TenantQueue{}
	for _, q := range fleet.TenantQueues(queue) {
		queues[q.Tenant] = q
	}
	return func(t store.Tenant) api.TenantStatus {
		q := queues[t.Name]
		return api.TenantStatus{Tenant: t, Queued: q.Queued, Dispatched: q.Dispatched, Running: q.Running, AtLeast: q.AtLeast, OldestSeconds: q.OldestSeconds,
			Quotas: fleet.QuotasOf(t, q, usage[t.Name], a.Quotas)}
	}, nil
}
