package fleet

import (
	"time"
)

// cordonedFor is how long a cordoned worker takes no jobs. Each heartbeat renews it.
const cordonedFor = 15 * time.Second

// Rest returns how long a worker must take no jobs, and whether it is cordoned.
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

// ByPool returns the workers of each pool, and how many of them are quarantined and cordoned.
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

// Took counts n more jobs on a worker, or fewer if n is negative, until its next heartbeat reports the number. It
// returns the worker's pool; "" if the worker is unknown.
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
