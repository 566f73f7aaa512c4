package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/placement"
)

// Sizes returns the slots of each pool that has workers.
func (f *Fleet) Sizes() map[string]Size {
	f.mu.Lock()
	defer f.mu.Unlock()
	pools := map[string]Size{}
	for _, m := range f.members {
		p := pools[m.pool]
		pools[m.pool] = Size{p.Slots + m.Slots, p.Free + m.Free}
	}
	return pools
}

// PoolOf returns the pool of a worker; "" if the worker is not known here.
func (f *Fleet) PoolOf(worker string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[worker].pool
}

// Crew is the workers that may run the jobs of some classes.
type Crew struct {
	Classes []string
	Pools   []string // of these workers, sorted
	Size
}

// Crews returns the crews of the classes. Classes with the same workers share a crew; classes without workers have
// none.
func (f *Fleet) Crews(classes ...string) []Crew {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rejoin(time.Now())
	var crews []Crew
	known := map[mark]int{}
	for _, class := range classes {
		c := f.sums.of(class)
		if c.Slots == 0 {
			continue
		}
		i, ok := known[c.mark]
		if !ok {
			i = len(crews)
			known[c.mark] = i
			crews = append(crews, Crew{Pools: slices.Sorted(maps.Keys(c.pools)), Size: c.Size})
		}
		crews[i].Classes = append(crews[i].Classes, class)
	}
	return crews
}

// Crew returns the crew of one class, which may be empty.
func (f *Fleet) Crew(class string) Crew {
	if cs := f.Crews(class); len(cs) == 1 {
		return cs[0]
	}
	return Crew{Classes: []string{class}}
}

// put replaces a worker and its part of the sums.
func (f *Fleet) put(id string, m member) {
	if before, known := f.members[id]; known {
		f.sums.remove(&before)
	}
	f.sums.add(&m)
	if rest := m.rests; !m.cordoned && rest.After(time.Now()) && (f.rejoins.IsZero() || rest.Before(f.rejoins)) {
		f.rejoins = rest
	}
	f.members[id] = m
}

// rejoin counts the workers again whose quarantine has ended.
func (f *Fleet) rejoin(now time.Time) {
	if f.rejoins.IsZero() || now.Before(f.rejoins) {
		return
	}
	f.rejoins = time.Time{}
	for id, m := range f.members {
		if !m.rests.IsZero() && m.shape == nil {
			f.put(id, m)
		}
	}
}

// Offers returns the offers of the workers in each pool. It leaves out workers without slots.
func (f *Fleet) Offers() map[string][]placement.Offer {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := map[string][]placement.Offer{}
	for _, m := range f.members {
		if m.Slots > 0 {
			of[m.pool] = append(of[m.pool], m.offer)
		}
	}
	return of
}
