package fleet

import (
	"time"
)

// cordonedFor is how long a worker that is cordoned off takes no jobs; it is told so again
// with each heartbeat.
const cordonedFor = 15 * time.Second

// Rest returns for how long a worker is to take no jobs, and whether that is because it is
// cordoned off.
func (f *Fleet) Rest(worker string) (d time.Duration, cordoned bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[worker]
	return m.rest(), m.cordoned
}

func (m member) rest() time.Duration {
	d := max(time.Until(m.rests), 0)
	if m.cordoned {
		d = max(d, cordonedFor)
	}
	return d
}

// ByPool returns the workers of each pool, and how many of them are in quarantine and
// cordoned off.
func (f *Fleet) ByPool() (workers map[string][]string, resting, cordoned map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	workers, resting, cordoned = map[string][]string{}, map[string]int{}, map[string]int{}
	for id, m := range f.members {
		workers[m.pool] = append(workers[m.pool], id)
		switch {
		case m.cordoned:
			cordoned[m.pool]++
		case m.rest() > 0:
			resting[m.pool]++
		}
	}
	return workers, resting, cordoned
}

// Took counts n more jobs on a worker, fewer if n is negative, until its next
// heartbeat says how many there are. It returns the worker's pool.
func (f *Fleet) Took(worker string, n int) (pool string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, known := f.members[worker]
	if !known {
		return ""
	}
	m.Free = min(max(m.Free-n, 0), m.Slots)
	f.sums.free(&m)
	f.members[worker] = m
	return m.pool
}
