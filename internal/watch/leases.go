package watch

import (
	"context"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Leases prolongs those of batches, many of a tenant's at once. It remembers which have
// none: that is for ever, and most do not.
type Leases struct {
	Store store.Submitter

	mu   sync.Mutex
	of   map[leaseKey]time.Duration // 0: no lease, or one that is over
	kept map[string]*gather[time.Duration]
}

type leaseKey struct {
	tenant string
	batch  job.ID
}

// gather prolongs the leases of a tenant's batches, and answers how long they are.
func (l *Leases) gather(tenant string) *gather[time.Duration] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.kept[tenant]; g != nil {
		return g
	}
	if len(l.kept) >= maxCounted || l.kept == nil {
		l.kept = map[string]*gather[time.Duration]{} // questions under way end by themselves
	}
	g := newGather(func(ctx context.Context, ids []job.ID) (map[job.ID]time.Duration, error) {
		return l.Store.KeepBatches(ctx, tenant, ids)
	})
	l.kept[tenant] = g
	return g
}

// maxCounted bounds the tenants of which something is remembered.
const maxCounted = 1000

// maxLeases bounds what is remembered; asking anew costs a share of a statement.
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

// Hear takes a request that reads a batch for a sign of its client: it prolongs the lease of
// the batch, if that has one, now and three times in the length of it while ctx, the
// request's, lasts. It returns at once.
func (l *Leases) Hear(ctx context.Context, tenant string, batch job.ID) {
	key := leaseKey{tenant, batch}
	if l.none(key) {
		return
	}
	kept := l.gather(tenant)
	go func() {
		whole := context.WithoutCancel(ctx) // the question has its own end
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
