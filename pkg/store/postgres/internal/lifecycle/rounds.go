package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// has reports whether a tier is one of a tenant's queue.
func (q *queue) has(tenant int32, tier string) bool {
	of, rest, _ := strings.Cut(tier, " ")
	_, class, _ := strings.Cut(rest, " ")
	return class == q.class && of == strconv.Itoa(int(tenant))
}

// mostSkipped is how many batches with nothing to run a look steps over: unsealed and paused ones, and those whose
// first job waits or is overdue. The visits of a look share it, and each may skip leastSkipped. A step is some 20
// microseconds.
const mostSkipped, leastSkipped = 200, 10

// roundTime is how long a look goes on past such batches while it finds nothing else. roundStay is how long, at least,
// looks begin at a place with something to run before they go on.
const (
	roundTime = 200 * time.Millisecond
	roundStay = time.Second
)

// The results of a round in a look, as schedule returns them.
const (
	roundGoesOn = "goes on" // there are more batches behind the named one
	roundEnds   = "ends"    // there are no more, or enough to run was found
	roundWaits  = "waits"   // of all of them: the window had no room
	roundRests  = "rests"   // the look did not come by
)

// tierOf names a tier: a tenant's priority in a class.
func tierOf(tenant, priority int32, class string) string {
	return fmt.Sprintf("%d %d %s", tenant, priority, class)
}

// rounds is the scheduler's position among the batches of tiers that have many with nothing to run. Only the leader has
// it, and losing it only costs a round.
type rounds struct {
	mu sync.Mutex
	of map[string]*round // by tier
}

// round is one way through the batches of a tier, from the oldest on.
type round struct {
	at           place
	began, moved time.Time
	found        time.Time // since when looks find something to run from at on; zero: they do not
}

// place is the batch, and the lane in it, behind which a look begins.
type place struct {
	Batch job.ID `json:"batch"`
	Lane  int64  `json:"lane"`
}

// firstPlace is before every batch, and behind the jobs that have none.
var firstPlace = place{Batch: "00000000-0000-0000-0000-000000000000", Lane: 1<<31 - 1}

// roundEnd is the end of a round, as schedule returns it.
type roundEnd struct {
	tier, what string
	found      bool // something to run
	place      place
}

// places are where looks begin, as JSON, by tier.
func (r *rounds) places(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	places := map[string]place{}
	for tier, at := range r.of {
		if now.Sub(at.moved) > time.Minute { // no look uses it any more
			delete(r.of, tier)
			continue
		}
		places[tier] = at.at
	}
	b, _ := json.Marshal(places) // strings and numbers
	return string(b)
}

// tiers are the tiers with a round.
func (r *rounds) tiers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.of))
}

// note stores the ends of the rounds in a look at some classes, and reports whether a round goes on. A round without an
// end is complete: the next look begins with the oldest.
func (r *rounds) note(classes []string, ends []roundEnd, now time.Time) (goesOn bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := map[string]roundEnd{}
	for _, e := range ends {
		if e.what == roundWaits {
			return false
		}
		was := said[e.tier]
		if was.what == roundGoesOn { // the jobs that e found are before this place
			e.what, e.place = was.what, was.place
		}
		e.found = e.found || was.found
		said[e.tier] = e
	}
	for tier, e := range said {
		goesOn = r.step(tier, e, now) || goesOn
	}
	for tier := range r.of {
		if _, rest, _ := strings.Cut(tier, " "); said[tier].what == "" {
			if _, pool, _ := strings.Cut(rest, " "); slices.Contains(classes, pool) {
				delete(r.of, tier)
			}
		}
	}
	return goesOn
}

// step stores the end of one round, and reports whether the next look begins elsewhere.
func (r *rounds) step(tier string, e roundEnd, now time.Time) (goesOn bool) {
	at := r.of[tier]
	if e.what == roundRests {
		return false
	}
	if at == nil {
		if e.what == roundEnds { // it begins anew already
			return false
		}
		at = &round{at: firstPlace, began: now}
		if r.of == nil {
			r.of = map[string]*round{}
		}
		r.of[tier] = at
	}
	at.moved = now
	if e.found {
		if at.found.IsZero() {
			at.found = now
		}
		if now.Sub(at.found) <= max(roundStay, 4*at.found.Sub(at.began)) {
			return false
		}
		at.began = now
	}
	if e.what == roundEnds { // those before may have something to run by now
		delete(r.of, tier)
		return false
	}
	at.at, at.found = e.place, time.Time{}
	return true
}
