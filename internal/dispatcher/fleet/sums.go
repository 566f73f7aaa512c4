package fleet

import (
	"encoding/json"
	"math/rand/v2"

	"github.com/assay-run/assay/pkg/placement"
)

// maxSums bounds the classes with sums. Beyond it, all sums are dropped and counted again on demand.
const maxSums = 1024

// sums counts slots by class as workers report. So a job or a scheduler pass reads one number instead of every
// worker. The lock of the Fleet guards it.
type sums struct {
	shapes  map[string]*shape    // by pool and offer
	classes map[string]*classSum // classes that were requested
}

// shape is the workers of a pool with the same offer.
type shape struct {
	pool    string
	offer   placement.Offer
	mark    mark
	workers int
	Size
	classes []*classSum // that these workers take
}

// classSum is the workers that take the jobs of a class.
type classSum struct {
	need  placement.Need
	mark  mark           // of all its shapes
	pools map[string]int // number of shapes by pool
	Size
}

// mark identifies a set of shapes: the marks of its members, combined by XOR.
type mark [2]uint64

func (m mark) with(o mark) mark { return mark{m[0] ^ o[0], m[1] ^ o[1]} }

func newSums() sums {
	return sums{shapes: map[string]*shape{}, classes: map[string]*classSum{}}
}

// add counts a worker, unless it takes no jobs now, and records the counted slots in m.
func (s *sums) add(m *member) {
	m.shape, m.counted = nil, Size{}
	if m.Slots == 0 || m.rest() > 0 {
		return
	}
	offer, err := json.Marshal(m.offer)
	if err != nil {
		return // plain data; cannot fail
	}
	key := m.pool + "\n" + string(offer)
	sh := s.shapes[key]
	if sh == nil {
		sh = &shape{pool: m.pool, offer: m.offer, mark: mark{rand.Uint64(), rand.Uint64()}}
		s.shapes[key] = sh
		for _, c := range s.classes {
			c.admit(sh)
		}
	}
	m.shape, m.counted, m.key = sh, m.Size, key
	sh.workers++
	sh.grow(m.Size)
}

// remove undoes add.
func (s *sums) remove(m *member) {
	sh := m.shape
	if sh == nil {
		return
	}
	sh.grow(Size{-m.counted.Slots, -m.counted.Free})
	m.shape = nil
	if sh.workers--; sh.workers > 0 {
		return
	}
	delete(s.shapes, m.key)
	for _, c := range sh.classes {
		c.mark = c.mark.with(sh.mark)
		if c.pools[sh.pool]--; c.pools[sh.pool] == 0 {
			delete(c.pools, sh.pool)
		}
	}
}

// free takes over the free slots of m.
func (s *sums) free(m *member) {
	if m.shape != nil {
		m.shape.grow(Size{Free: m.Free - m.counted.Free})
		m.counted.Free = m.Free
	}
}

// grow adds slots of a worker to the sums of the shape and of its classes.
func (sh *shape) grow(by Size) {
	sh.Size = Size{sh.Slots + by.Slots, sh.Free + by.Free}
	for _, c := range sh.classes {
		c.Size = Size{c.Slots + by.Slots, c.Free + by.Free}
	}
}

// admit adds the shape's workers to the class if they take it.
func (c *classSum) admit(sh *shape) {
	if !sh.offer.Takes(sh.pool, c.need) {
		return
	}
	sh.classes = append(sh.classes, c)
	c.mark = c.mark.with(sh.mark)
	c.pools[sh.pool]++
	c.Size = Size{c.Slots + sh.Slots, c.Free + sh.Free}
}

// of returns the sum of a class.
func (s *sums) of(class string) *classSum {
	if c := s.classes[class]; c != nil {
		return c
	}
	if len(s.classes) >= maxSums {
		clear(s.classes)
		for _, sh := range s.shapes {
			sh.classes = nil
		}
	}
	c := &classSum{need: placement.ParseClass(class), pools: map[string]int{}}
	s.classes[class] = c
	for _, sh := range s.shapes {
		c.admit(sh)
	}
	return c
}
