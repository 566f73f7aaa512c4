package fleet

import (
	"cmp"
	"slices"
)

// TenantQueues sums the groups of a queue by tenant, the tenants with the most jobs first.
func TenantQueues(groups []QueueGroup) []TenantQueue {
	at := map[string]int{}
	all := []TenantQueue{}
	for _, g := range groups {
		i, known := at[g.Tenant]
		if !known {
			i = len(all)
			at[g.Tenant] = i
			all = append(all, TenantQueue{Tenant: g.Tenant})
		}
		t := &all[i]
		t.Queued, t.Dispatched, t.Running = t.Queued+g.Queued, t.Dispatched+g.Dispatched, t.Running+g.Running
		t.AtLeast, t.OldestSeconds = t.AtLeast || g.AtLeast, max(t.OldestSeconds, g.OldestSeconds)
	}
	jobs := func(t TenantQueue) int64 { return t.Queued + t.Dispatched + t.Running }
	slices.SortFunc(all, func(a, b TenantQueue) int {
		return cmp.Or(cmp.Compare(jobs(b), jobs(a)), cmp.Compare(a.Tenant, b.Tenant))
	})
	return all
}
