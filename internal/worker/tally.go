package worker

import (
	"maps"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// rateOver is the least time that a rate is of: heartbeats may follow each other at once.
const rateOver = time.Second

// tally is what this worker has done since it started, for people who look at the
// fleet: each heartbeat carries it.
type tally struct {
	mu       sync.Mutex
	outcomes map[job.Outcome]int64
	back     map[job.Reason]int64

	// As of the heartbeat that the rate was last reckoned at.
	at    time.Time
	ended int64
	rate  float64
}

func newTally(now time.Time) *tally {
	return &tally{outcomes: map[job.Outcome]int64{}, back: map[job.Reason]int64{}, at: now}
}

func (t *tally) end(o job.Outcome) {
	t.mu.Lock()
	t.outcomes[o]++
	t.mu.Unlock()
}

func (t *tally) released(r job.Reason) {
	t.mu.Lock()
	t.back[r]++
	t.mu.Unlock()
}

// say returns how it stands now. The rate is of the time since it was said last.
func (t *tally) say(now time.Time, sessions int) *store.Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := &store.Tally{Outcomes: maps.Clone(t.outcomes), Back: maps.Clone(t.back), Sessions: sessions}
	n := int64(0)
	for _, v := range t.outcomes {
		n += v
	}
	if d := now.Sub(t.at); d >= rateOver {
		t.rate, t.at, t.ended = float64(n-t.ended)/d.Seconds(), now, n
	}
	out.PerSecond = t.rate
	return out
}
