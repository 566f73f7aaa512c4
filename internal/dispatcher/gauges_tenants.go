package dispatcher

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// tenantsEvery is the period of counting the jobs of tenants. It is more expensive than the other counts.
	tenantsEvery = 15 * time.Second
	// tenantsMost and agesMost bound the tenants with their own series.
	tenantsMost  = 50
	agesMost     = 20
	otherTenants = "_other"
)

// tenants exports the live jobs of each tenant and the age of its oldest queued job.
type tenants struct {
	mu   sync.Mutex
	jobs map[string]fleet.TenantQueue // tenants with series, and otherTenants
}

// set replaces the counts. all is sorted, the tenants with the most jobs first.
func (t *tenants) set(all []fleet.TenantQueue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs = largestTenants(all, t.jobs)
}

// largestTenants returns the tenants with the most jobs, and the sum of the others. A tenant with series keeps them,
// with zeros, since alerts ignore absent series.
func largestTenants(all []fleet.TenantQueue, before map[string]fleet.TenantQueue) map[string]fleet.TenantQueue {
	out := map[string]fleet.TenantQueue{}
	for _, q := range all {
		name := q.Tenant
		if len(out) >= tenantsMost && name != otherTenants {
			name = otherTenants
		}
		o := out[name]
		out[name] = fleet.TenantQueue{Tenant: name, Queued: o.Queued + q.Queued, Dispatched: o.Dispatched + q.Dispatched, Running: o.Running + q.Running,
			OldestSeconds: max(o.OldestSeconds, q.OldestSeconds)}
	}
	for name := range before {
		if _, there := out[name]; !there && (len(out) < tenantsMost || name == otherTenants) {
			out[name] = fleet.TenantQueue{Tenant: name}
		}
	}
	return out
}

func (t *tenants) observe(o metric.Observer, jobs metric.Int64Observable, ages metric.Float64Observable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var oldest []fleet.TenantQueue
	for tenant, q := range t.jobs {
		oldest = append(oldest, q)
		for state, n := range map[job.State]int64{job.Queued: q.Queued, job.Dispatched: q.Dispatched, job.Running: q.Running} {
			o.ObserveInt64(jobs, n, metric.WithAttributes(attribute.String("tenant", tenant), attribute.String("state", string(state))))
		}
	}
	slices.SortFunc(oldest, func(a, b fleet.TenantQueue) int {
		return cmp.Or(cmp.Compare(b.OldestSeconds, a.OldestSeconds), cmp.Compare(a.Tenant, b.Tenant))
	})
	for _, q := range oldest[:min(len(oldest), agesMost)] {
		o.ObserveFloat64(ages, q.OldestSeconds, metric.WithAttributes(attribute.String("tenant", q.Tenant)))
	}
}
