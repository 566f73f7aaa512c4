package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/placement"
)

// standing ranks a worker for new work: lower is better.
type standing int

const (
	roomy standing = iota // has a free slot
	busy                  // has no free slot, or is held back
	away                  // is in quarantine or draining: only if no other worker fits
	never                 // is cordoned by an operator
)

func (m *member) standing() standing {
	switch {
	case m.cordoned:
		return never
	case m.draining || m.rest() > 0:
		return away
	case m.Free < 1:
		return busy
	}
	return roomy
}

// Choice is a chosen worker and its last heartbeat.
type Choice struct {
	Worker    string
	StartedAt time.Time
	Beat      int64
}

// Choose returns the worker with the most free slots for a job of a class. It considers only workers whose last
// heartbeat arrived at this dispatcher within age. ok is false if there is none.
func (f *Fleet) Choose(class string, age time.Duration) (c Choice, ok bool) {
	need := placement.ParseClass(class)
	f.mu.Lock()
	defer f.mu.Unlock()
	most := 0
	for id, m := range f.members {
		if m.Free > most && m.heard.beat > 0 && time.Since(m.heard.at) < age && m.standing() == roomy && m.offer.Takes(m.pool, need) {
			c, most = Choice{id, m.heard.startedAt, m.heard.beat}, m.Free
		}
	}
	return c, most > 0
}

// Ranked returns the workers that fit a need, for work without a slot such as sessions. Workers with free slots come
// first, and equal workers rotate from call to call. Cordoned workers are left out.
func (f *Fleet) Ranked(n placement.Need) []Worker {
	unfit := func(w Worker) bool { return !w.Takes(n) }
	all := slices.DeleteFunc(slices.Clone(f.List()), unfit)
	if len(all) == 0 {
		if all = slices.DeleteFunc(slices.Clone(f.fresh()), unfit); len(all) == 0 {
			return nil
		}
	}
	first := int(f.turn.Add(1) % uint64(len(all)))
	all = append(all[first:len(all):len(all)], all[:first]...)
	rank := f.standings(all)
	all = slices.DeleteFunc(all, func(w Worker) bool { return rank[w.ID] == never })
	slices.SortStableFunc(all, func(a, b Worker) int { return cmp.Compare(rank[a.ID], rank[b.ID]) })
	return all
}

// standings returns the standing of each worker.
func (f *Fleet) standings(of []Worker) map[string]standing {
	rank := make(map[string]standing, len(of))
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range of {
		switch m, known := f.members[w.ID]; {
		case w.Cordon != nil:
			rank[w.ID] = never
		case known:
			rank[w.ID] = m.standing()
		}
	}
	return rank
}
