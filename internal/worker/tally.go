package worker

import (
	"maps"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// rateOver is the shortest interval for a rate: heartbeats may follow each other at once.
const rateOver = time.Second

// tally counts the outcomes since this worker started, for operators. Each heartbeat carries it.
type tally struct {
	mu       sync.Mutex
	outcomes map[job.Outcome]int64
	back     map[job.Reason]int64

	// As of the heartbeat that last computed the rate.
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

// say returns the current tally. The rate covers the time since its last computation.
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
