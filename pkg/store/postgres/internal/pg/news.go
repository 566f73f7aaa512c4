package pg

import (
	"sync"

	"github.com/assay-run/assay/pkg/store"
)

// mostNews bounds the queues that News names. The rest is forgotten: a scheduler finds queues
// without hints, too.
const mostNews = 10_000

// News collects hints for the scheduler of this process or of the leader. A missing hint costs the scheduler time; the
// rows are the truth.
type News struct {
	mu     sync.Mutex
	queued map[store.Queue]struct{}
	rest   store.Hints
}

// Queued notes that jobs may have been queued.
func (n *News) Queued(queues ...store.Queue) { n.Add(store.Hints{Queues: queues}) }

// Requeued notes that jobs of any queues may run now which could not before.
func (n *News) Requeued() { n.Add(store.Hints{Requeued: true}) }

// Settings notes that settings of tenants have changed.
func (n *News) Settings() { n.Add(store.Hints{Requeued: true, Settings: true}) }

// Add adds hints for the next Take.
func (n *News) Add(h store.Hints) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rest.Requeued = n.rest.Requeued || h.Requeued
	n.rest.Settings = n.rest.Settings || h.Settings
	for _, q := range h.Queues {
		if len(n.queued) >= mostNews {
			return
		}
		if n.queued == nil {
			n.queued = map[store.Queue]struct{}{}
		}
		n.queued[q] = struct{}{}
	}
}

// Take returns the hints since the last call.
func (n *News) Take() (h store.Hints) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, n.rest = n.rest, store.Hints{}
	for q := range n.queued {
		h.Queues = append(h.Queues, q)
	}
	n.queued = nil
	return h
}
