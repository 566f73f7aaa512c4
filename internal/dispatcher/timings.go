package dispatcher

import (
	"slices"
	"sync"
	"time"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// timingsFor is the period that timings cover.
const timingsFor = time.Minute

// timings remembers the calls of the last minute, for this dispatcher's report.
type timings struct {
	mu    sync.Mutex
	calls []timing // oldest first
	err   string   // of the last failure
	at    time.Time
}

type timing struct {
	at     time.Time
	took   time.Duration
	failed bool
}

// add records a call that ended at now.
func (t *timings) add(now time.Time, took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.prune(now), timing{now, took, err != nil})
	if err != nil {
		t.err, t.at = err.Error(), now
	}
}

// prune drops older calls and returns the rest.
func (t *timings) prune(now time.Time) []timing {
	old, _ := slices.BinarySearchFunc(t.calls, now.Add(-timingsFor), func(c timing, limit time.Time) int { return c.at.Compare(limit) })
	return slices.Delete(t.calls, 0, old)
}

// sum returns the statistics of the last minute's calls.
func (t *timings) sum(now time.Time) fleet.Timings {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = t.prune(now)
	out := fleet.Timings{Count: len(t.calls), LastError: t.err, LastFail: t.at}
	for _, c := range t.calls {
		if c.failed {
			out.Failed++
		}
		out.MeanMS += job.Milliseconds(c.took) / float64(len(t.calls))
		out.MaxMS = max(out.MaxMS, job.Milliseconds(c.took))
	}
	return out
}
