package admit

import (
	"context"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/store"
)

// recentFor is the lifetime of a cached tenant.
const recentFor = time.Second

// Recent returns t with answers cached for recentFor: jobs arrive in quick succession and tenants change rarely.
func Recent(t Tenants) Tenants { return &recent{tenants: t, known: map[string]known{}} }

type recent struct {
	tenants Tenants

	mu    sync.Mutex
	known map[string]known
}

type known struct {
	tenant store.Tenant
	until  time.Time
}

func (r *recent) Tenant(ctx context.Context, name string) (store.Tenant, error) {
	now := time.Now()
	r.mu.Lock()
	k := r.known[name]
	r.mu.Unlock()
	if now.Before(k.until) {
		return k.tenant, nil
	}
	t, err := r.tenants.Tenant(ctx, name)
	if err != nil {
		return t, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= 1000 {
		clear(r.known)
	}
	r.known[name] = known{t, now.Add(recentFor)}
	return t, nil
}
