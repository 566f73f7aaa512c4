package browse

import (
	"context"
	"net/http"
	"time"

	"github.com/assay-run/assay/internal/httpapi/web"
	"github.com/assay-run/assay/internal/recent"
	"github.com/assay-run/assay/internal/share"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// keptBytes is the most that answers of one kind have together that are kept.
	keptBytes = 16 << 20
	// keptAge is for how long an answer is good about what still changes; one that took long, for ten times as long as it
	// took, and at most keptOldest.
	keptAge    = time.Second
	keptThrift = 10
	keptOldest = 5 * time.Second
	// overAge is for how long what was read of batches that are over is good: their jobs change no more, but are erased.
	overAge = time.Minute
	// keptPatience is how long such a question may take.
	keptPatience = 30 * time.Second
)

// Source is what the routes read from.
type Source interface {
	store.Browser
	Batch(ctx context.Context, tenant string, id job.ID) (*job.Batch, error)
}

// subject is what an answer is about.
type subject struct {
	tenant  string
	a, b    job.ID
	from, n int
}

// kept remembers answers of a kind that cost much: for a moment, and longer those about batches that are over.
type kept[V any] struct{ now, over recent.Keyed[subject, V] }

func newKept[V any](size func(V) int64) *kept[V] {
	return &kept[V]{
		now:  recent.Keyed[subject, V]{Most: keptBytes, Size: size, Within: keptPatience, Age: keptAge, Thrift: keptThrift, Oldest: keptOldest},
		over: recent.Keyed[subject, V]{Most: keptBytes, Size: size, Within: keptPatience, Age: overAge},
	}
}

// New returns Handlers over a store. Of a batch there are routes that do not show it to those who are held to a label that it has
// not: ofBatch sees to that.
func New(s Source, reads *share.Turns, ofBatch func(serve) serve) *Handlers {
	return &Handlers{Store: s, Reads: reads, OfBatch: ofBatch, summaries: newKept(sizeOfSummary), comparisons: newKept(sizeOfComparison)}
}

// Forget has everything be read again that was kept: something was erased.
func (h *Handlers) Forget() {
	h.summaries.now.Forget()
	h.summaries.over.Forget()
	h.comparisons.now.Forget()
	h.comparisons.over.Forget()
}

// Rough sizes of answers, in bytes.
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

// summaryOf is the summary of a batch. Of one that is over only how it stands is read again.
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

// comparison is the one of two batches, or what is kept of it.
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
