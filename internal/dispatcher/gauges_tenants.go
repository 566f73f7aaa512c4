package dispatcher

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// tenantsEvery is how often the jobs of tenants are counted: it costs more than
	// what the scheduler needs to know.
	tenantsEvery = 15 * time.Second
	// tenantsMost bounds the tenants that have series of their own.
	tenantsMost  = 50
	otherTenants = "_other"
)

// tenants are how many live jobs each tenant has.
type tenants struct {
	mu      sync.Mutex
	counted time.Time
	jobs    map[string]store.QueueGroup // by tenant
}

// count counts, if it is time to.
func (t *tenants) count(ctx context.Context, s gaugeStore, log *slog.Logger) {
	t.mu.Lock()
	due := time.Since(t.counted) >= tenantsEvery
	t.mu.Unlock()
	if !due {
		return
	}
	groups, err := s.Queue(ctx)
	if err != nil {
		if ctx.Err() == nil {
			log.WarnContext(ctx, "jobs of tenants not counted", "error", err)
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counted, t.jobs = time.Now(), largestTenants(groups, t.jobs)
}

// largestTenants sums groups up by tenant, the many small ones as one. Tenants that
// had jobs before are kept, with none: what is absent is no news.
func largestTenants(groups []store.QueueGroup, before map[string]store.QueueGroup) map[string]store.QueueGroup {
	all := map[string]store.QueueGroup{}
	for name := range before {
		all[name] = store.QueueGroup{}
	}
	for _, g := range groups {
		all[g.Tenant] = plus(all[g.Tenant], g)
	}
	size := func(name string) int64 { return all[name].Queued + all[name].Dispatched + all[name].Running }
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a, b)) })
	for i, name := range names {
		if i >= tenantsMost && name != otherTenants {
			all[otherTenants] = plus(all[otherTenants], all[name])
			delete(all, name)
		}
	}
	return all
}

func plus(a, b store.QueueGroup) store.QueueGroup {
	return store.QueueGroup{Queued: a.Queued + b.Queued, Dispatched: a.Dispatched + b.Dispatched, Running: a.Running + b.Running}
}

func (t *tenants) observe(o metric.Observer, gauge metric.Int64Observable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for tenant, g := range t.jobs {
		for state, n := range map[job.State]int64{job.Queued: g.Queued, job.Dispatched: g.Dispatched, job.Running: g.Running} {
			o.ObserveInt64(gauge, n, metric.WithAttributes(attribute.String("tenant", tenant), attribute.String("state", string(state))))
		}
	}
}
