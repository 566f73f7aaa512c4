package fleet

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// When a worker's failures stand out.
const (
	healthWindow = 2 * time.Minute
	leastFailed  = 5   // fewer say nothing
	leastRate    = 0.2 // of its attempts that failed for reasons of ours
	outstanding  = 5   // times the median of the other workers of its pool
)

// health counts how the attempts of each worker end, as far as they are reported
// here. With several dispatchers each sees its share, and judges by it.
type health struct {
	mu     sync.Mutex
	since  time.Time
	recent map[string]tally           // since then
	before map[string]tally           // half a window earlier
	blamed map[string]map[job.ID]bool // whose failures are in recent
}

// tally is how attempts of a worker ended.
type tally struct{ done, failed int }

func (t tally) rate() float64 { return float64(t.failed) / float64(t.done+t.failed) }

func newHealth() *health {
	return &health{since: time.Now(), recent: map[string]tally{}, before: map[string]tally{}}
}

// add counts attempts that came to a result, and those that a worker gave up for
// reasons of ours.
func (h *health) add(worker string, done, failed int) {
	if done+failed == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.roll()
	t := h.recent[worker]
	h.recent[worker] = tally{t.done + done, t.failed + failed}
}

// gaveUp counts attempts that a worker gave up for reasons of ours: one for each
// job. A job that fails again and again says nothing more about the worker.
func (h *health) gaveUp(worker string, jobs []job.ID) {
	h.mu.Lock()
	h.roll()
	if h.blamed == nil {
		h.blamed = map[string]map[job.ID]bool{}
	}
	known := h.blamed[worker]
	if known == nil {
		known = map[job.ID]bool{}
		h.blamed[worker] = known
	}
	fresh := 0
	for _, id := range jobs {
		if !known[id] {
			known[id] = true
			fresh++
		}
	}
	h.mu.Unlock()
	h.add(worker, 0, fresh)
}

// forget begins anew with a worker.
func (h *health) forget(worker string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.recent, worker)
	delete(h.blamed, worker)
	delete(h.before, worker)
}

func (h *health) roll() {
	switch age := time.Since(h.since); {
	case age < healthWindow/2:
		return
	case age < healthWindow:
		h.before = h.recent
	default:
		h.before = map[string]tally{}
	}
	h.recent, h.since, h.blamed = map[string]tally{}, time.Now(), nil
}

// sick returns which of the workers of a pool stand out, and why. At least one
// other must do better: where everybody fails, no worker is to blame.
func (h *health) sick(pool []string) map[string]string {
	h.mu.Lock()
	h.roll()
	known := map[string]tally{}
	for _, w := range pool {
		a, b := h.recent[w], h.before[w]
		if t := (tally{a.done + b.done, a.failed + b.failed}); t.done+t.failed > 0 {
			known[w] = t
		}
	}
	h.mu.Unlock()
	sick := map[string]string{}
	for w, t := range known {
		if t.failed < leastFailed || t.rate() < leastRate {
			continue
		}
		others := maps.Clone(known)
		delete(others, w)
		usual, comparable := median(others)
		if comparable && t.rate() > outstanding*usual {
			sick[w] = fmt.Sprintf("%d of %d attempts failed for reasons of its own, usual are %.0f%%", t.failed, t.done+t.failed, 100*usual)
		}
	}
	return sick
}

// median returns the middle rate of those who have done enough to have one.
func median(of map[string]tally) (rate float64, known bool) {
	var rates []float64
	for _, t := range of {
		if t.done+t.failed >= leastFailed {
			rates = append(rates, t.rate())
		}
	}
	if len(rates) == 0 {
		return 0, false
	}
	slices.Sort(rates)
	return rates[len(rates)/2], true
}
