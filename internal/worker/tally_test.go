package worker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func TestTally(t *testing.T) {
	t.Parallel()
	start := time.Now()
	y := newTally(start)
	for range 10 {
		y.end(job.Succeeded)
	}
	y.released(job.ReasonInfra)
	first := y.say(start.Add(5*time.Second), 2)
	want := &store.Tally{Outcomes: map[job.Outcome]int64{job.Succeeded: 10}, Back: map[job.Reason]int64{job.ReasonInfra: 1}, PerSecond: 2, Sessions: 2}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	y.end(job.Failed)
	if again := y.say(start.Add(6*time.Second), 0); again.PerSecond != 1 || again.Outcomes[job.Succeeded] != 10 {
		t.Errorf("a second later it is %+v", again)
	}
	if soon := y.say(start.Add(6*time.Second+time.Millisecond), 0); soon.PerSecond != 1 {
		t.Errorf("a heartbeat that follows at once says %v a second", soon.PerSecond)
	}
	if first.Outcomes[job.Failed] != 0 {
		t.Error("what was said has changed afterwards")
	}
}
