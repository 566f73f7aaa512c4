package fleet

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// A worker's failures stand out at these values.
const (
	healthWindow = 2 * time.Minute
	leastFailed  = 5   // attempts; fewer prove too little
	leastRate    = 0.2 // part of its attempts that failed because of the worker
	outstanding  = 5   // multiple of the median of the other workers of its pool
)

// health counts the ends of each worker's attempts that are reported to this dispatcher. Each dispatcher decides by
// its own share.
//
// A failure counts against a worker only if another worker brought the same job to a result. Jobs that fail
// everywhere, or that no other worker may run, are no evidence. Otherwise clients could send jobs that quarantine a
// healthy worker.
type health struct {
	mu     sync.Mutex
	since  time.Time
	recent map[string]tally // since then
	before map[string]tally // half a window earlier
	// gaveUp are the workers that gave up a job; formerly has the workers of half a window earlier.
	gaveUp, formerly map[job.ID][]string
}

// tally counts how attempts of a worker ended.
type tally struct{ done, failed int }

func (t tally) rate() float64 { return float64(t.failed) / float64(t.done+t.failed) }

func newHealth() *health {
	return &health{since: time.Now(), recent: map[string]tally{}, before: map[string]tally{}, gaveUp: map[job.ID][]string{}}
}

// recordResults counts attempts that a worker brought to a result, and the failures of other workers with the same jobs.
func (h *health) recordResults(worker string, jobs []job.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.roll()
	for _, id := range jobs {
		h.count(worker, tally{done: 1})
		for _, by := range []map[job.ID][]string{h.gaveUp, h.formerly} {
			for _, other := range by[id] {
				if other != worker {
					h.count(other, tally{failed: 1})
				}
			}
			delete(by, id)
		}
	}
}

// count adds t to a worker's tally. The caller holds the lock.
func (h *health) count(worker string, t tally) {
	sum := h.recent[worker]
	h.recent[worker] = tally{sum.done + t.done, sum.failed + t.failed}
}

// failed notes jobs that a worker gave up for reasons other than the job, each job once.
func (h *health) failed(worker string, jobs []job.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.roll()
	for _, id := range jobs {
		if !slices.Contains(h.gaveUp[id], worker) && !slices.Contains(h.formerly[id], worker) {
			h.gaveUp[id] = append(h.gaveUp[id], worker)
		}
	}
}

// forget drops the history of a worker.
func (h *health) forget(worker string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.recent, worker)
	delete(h.before, worker)
	for _, by := range []map[job.ID][]string{h.gaveUp, h.formerly} {
		for id, workers := range by {
			by[id] = slices.DeleteFunc(workers, func(w string) bool { return w == worker })
		}
	}
}

func (h *health) roll() {
	switch age := time.Since(h.since); {
	case age < healthWindow/2:
		return
	case age < healthWindow:
		h.before, h.formerly = h.recent, h.gaveUp
	default:
		h.before, h.formerly = map[string]tally{}, nil
	}
	h.recent, h.since, h.gaveUp = map[string]tally{}, time.Now(), map[job.ID][]string{}
}

// sick returns the workers of a pool whose failures stand out, and why. Workers are compared with the median of the
// others: if all fail alike, none stands out.
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

// median returns the middle failure rate of the workers with at least leastFailed attempts; known is false without
// any.
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
