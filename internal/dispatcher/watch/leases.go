package watch

import (
	"context"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// LeaseStore is the part of the store that Leases writes.
type LeaseStore interface {
	KeepBatches(ctx context.Context, tenant string, batches []job.ID) (map[job.ID]time.Duration, error)
}

// Leases renews the leases of batches, many of a tenant at once. It remembers the batches without a
// lease: they never get one, and most have none.
type Leases struct {
	Store LeaseStore

	mu   sync.Mutex
	of   map[leaseKey]time.Duration // 0: no lease, or an ended one
	kept map[string]*gather[time.Duration]
}

type leaseKey struct {
	tenant string
	batch  job.ID
}

// gather renews the leases of a tenant's batches and returns their lengths.
func (l *Leases) gather(tenant string) *gather[time.Duration] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.kept[tenant]; g != nil {
		return g
	}
	if len(l.kept) >= maxCounted || l.kept == nil {
		l.kept = map[string]*gather[time.Duration]{} // running queries end by themselves
	}
	g := newGather(func(ctx context.Context, ids []job.ID) (map[job.ID]time.Duration, error) {
		return l.Store.KeepBatches(ctx, tenant, ids)
	})
	l.kept[tenant] = g
	return g
}

// maxCounted limits the number of remembered tenants.
const maxCounted = 1000

// maxLeases limits the number of remembered batches. Asking again costs a share of a statement.
const maxLeases = 100_000

func (l *Leases) note(k leaseKey, length time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil || len(l.of) >= maxLeases {
		l.of = map[leaseKey]time.Duration{}
	}
	l.of[k] = length
}

func (l *Leases) none(k leaseKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	length, known := l.of[k]
	return known && length == 0
}

// KeepAlive renews the lease of a batch, if it has one, when a client's request reads the batch. It renews the lease now
// and, until ctx of the request ends, three times in its length. It returns at once.
func (l *Leases) KeepAlive(ctx context.Context, tenant string, batch job.ID) {
	key := leaseKey{tenant, batch}
	if l.none(key) {
		return
	}
	kept := l.gather(tenant)
	go func() {
		whole := context.WithoutCancel(ctx) // the query has its own end
		for {
			again := time.Second
			length, found, err := kept.get(whole, batch)
			if err == nil {
				if l.note(key, length); !found {
					return
				}
				again = length / 3
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(again):
			}
		}
	}()
}
