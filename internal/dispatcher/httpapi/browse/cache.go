package browse

import (
	"context"
	"net/http"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// keptBytes limits the total size of the cached responses of one kind.
	keptBytes = 16 << 20
	// keptAge is how long a response is cached while its batches still change. Slow queries are cached for ten times
	// their duration, up to keptOldest.
	keptAge    = time.Second
	keptThrift = 10
	keptOldest = 5 * time.Second
	// overAge is how long data about finished batches is cached. Their jobs no longer change, but may be deleted.
	overAge = time.Minute
	// keptPatience limits the duration of such a query.
	keptPatience = 30 * time.Second
)

// Source is the part of the store that the routes read.
type Source interface {
	store.Browser
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
}

// subject is the key of a cached response.
type subject struct {
	tenant  string
	a, b    job.ID
	from, n int
}

// responseCache caches expensive responses of one kind: briefly, and longer about finished batches.
type responseCache[V any] struct{ now, over recent.Keyed[subject, V] }

func newResponseCache[V any](size func(V) int64) *responseCache[V] {
	return &responseCache[V]{
		now:  recent.Keyed[subject, V]{Most: keptBytes, Size: size, Within: keptPatience, Age: keptAge, Thrift: keptThrift, Oldest: keptOldest},
		over: recent.Keyed[subject, V]{Most: keptBytes, Size: size, Within: keptPatience, Age: overAge},
	}
}

// New returns Handlers for a store. ofBatch wraps routes about a batch: restricted keys get 404 for batches without
// their label.
func New(s Source, reads *share.Turns, ofBatch func(serve) serve) *Handlers {
	return &Handlers{Store: s, Reads: reads, OfBatch: ofBatch, summaries: newResponseCache(sizeOfSummary), comparisons: newResponseCache(sizeOfComparison)}
}

// Forget empties the caches after a deletion.
func (h *Handlers) Forget() {
	h.summaries.now.Forget()
	h.summaries.over.Forget()
	h.comparisons.now.Forget()
	h.comparisons.over.Forget()
}

// Estimated sizes of responses, in bytes.
const (
	sizeOfID    = 64
	sizeOfBatch = 2 << 10
)

func sizeOfSummary(s *store.BatchSummary) int64 {
	n := sizeOfBatch + len(s.Batch.Name) + 64*(len(s.Reasons)+len(s.Durations))
	for key, value := range s.Batch.Labels {
		n += len(key) + len(value)
	}
	for _, c := range s.Clusters {
		n += len(c.Exception) + len(c.Message) + 2*sizeOfID
	}
	return int64(n)
}

func sizeOfComparison(c *store.Comparison) int64 {
	n := sizeOfBatch
	for _, f := range c.Flips {
		n += len(f.Name) + 3*sizeOfID
	}
	return int64(n)
}

// summaryOf returns the summary of a batch. If the batch has ended, only its own record is read again.
func (h *Handlers) summaryOf(r *http.Request, id job.ID) (*store.BatchSummary, error) {
	about := subject{tenant: web.Tenant(r), a: id}
	read := func(ctx context.Context) (sum *store.BatchSummary, err error) {
		err = h.Reads.Do(ctx, about.tenant, func() error { sum, err = h.Store.BatchSummary(ctx, about.tenant, id); return err })
		return sum, err
	}
	return h.summaries.now.Get(r.Context(), about, func(ctx context.Context) (*store.BatchSummary, error) {
		b, err := h.Store.Batch(ctx, about.tenant, id)
		if err != nil {
			return nil, err
		}
		if !b.Done() {
			return read(ctx)
		}
		sum, err := h.summaries.over.Get(ctx, about, read)
		if err != nil {
			return nil, err
		}
		fresh := *sum
		fresh.Batch = *b
		return &fresh, nil
	})
}

// comparison returns the comparison of two batches, possibly from the cache.
func (h *Handlers) comparison(r *http.Request, about subject) (*store.Comparison, error) {
	read := func(ctx context.Context) (c *store.Comparison, err error) {
		err = h.Reads.Do(ctx, about.tenant, func() error {
			c, err = h.Store.CompareBatches(ctx, about.tenant, about.a, about.b, about.from, about.n)
			return err
		})
		return c, err
	}
	return h.comparisons.now.Get(r.Context(), about, func(ctx context.Context) (*store.Comparison, error) {
		for _, id := range []job.ID{about.a, about.b} {
			b, err := h.Store.Batch(ctx, about.tenant, id)
			if err != nil {
				return nil, err
			}
			if !b.Done() {
				return read(ctx)
			}
		}
		return h.comparisons.over.Get(ctx, about, read)
	})
}
