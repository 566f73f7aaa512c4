package fleet

import (
	"maps"
	"slices"

	"github.com/assay-run/assay/pkg/placement"
)

// Sizes returns the size of each pool that has a worker.
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

// PoolOf returns the pool of a worker; "": it is not known here.
func (f *Fleet) PoolOf(worker string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[worker].pool
}

// Crew is the workers that may run the jobs of some classes.
type Crew struct {
	Classes []string
	Pools   []string // that they are of
	Size
}

// Crews returns who may run the jobs of the classes, where there is anybody: those
// with the same workers are together.
func (f *Fleet) Crews(classes ...string) []Crew {
	needs := make([]placement.Need, len(classes))
	for i, c := range classes {
		needs[i] = placement.ParseClass(c)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	members := slices.Collect(maps.Values(f.members))
	var crews []*Crew
	known := map[string]*Crew{} // by their members
	for i, n := range needs {
		c, who := crewFor(n, members)
		if c.Slots == 0 {
			continue
		}
		if known[who] == nil {
			known[who] = c
			crews = append(crews, c)
		}
		known[who].Classes = append(known[who].Classes, classes[i])
	}
	out := make([]Crew, len(crews))
	for i, c := range crews {
		out[i] = *c
	}
	return out
}

// Crew is crews of one class.
func (f *Fleet) Crew(class string) Crew {
	if cs := f.Crews(class); len(cs) == 1 {
		return cs[0]
	}
	return Crew{Classes: []string{class}}
}

// crewFor sums up the members that have what a job needs. who is the same for the same
// ones, and for no others.
func crewFor(n placement.Need, members []member) (c *Crew, who string) {
	c = &Crew{}
	bits := make([]byte, (len(members)+7)/8)
	for i, m := range members {
		if m.Slots == 0 || m.rest() > 0 || !m.offer.Takes(m.pool, n) {
			continue
		}
		bits[i/8] |= 1 << (i % 8)
		c.Size = Size{c.Slots + m.Slots, c.Free + m.Free}
		if !slices.Contains(c.Pools, m.pool) {
			c.Pools = append(c.Pools, m.pool)
		}
	}
	return c, string(bits)
}

// Offers returns what the workers of each pool offer that has any.
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
