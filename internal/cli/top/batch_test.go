package top

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// TestBatch checks that a batch is watched until its end, and that escape sequences in the output of programs do not
// reach the terminal.
func TestBatch(t *testing.T) {
	t.Parallel()
	s := &fleet.BatchSummary{
		Batch: job.Batch{ID: job.NewID(), Name: "nightly", Total: 4, Counts: map[job.State]int64{job.Finished: 3, job.Running: 1},
			Outcomes: map[job.Outcome]int64{job.Succeeded: 1, job.Exception: 2}},
		Rate: 1.5, ETA: job.Duration(2 * time.Second), Sampled: 3, SampledOf: 3, Reasons: map[job.Reason]int64{job.ReasonLost: 1},
		Durations: []fleet.DurationBucket{{UpToMS: 10, Jobs: 1}, {UpToMS: 100, Jobs: 2}},
		Clusters:  []fleet.FailureCluster{{Outcome: job.Failed, Failure: job.TimedOut, Exception: "ValueError", Message: "bad\x1b[2J", Jobs: 2, Example: job.NewID()}},
	}
	look := Batch(func(context.Context) (*fleet.BatchSummary, error) { return s, nil })
	v, err := look(t.Context())
	if err != nil || v.Over {
		t.Fatalf("%+v, %v", v, err)
	}
	text := strings.Join(v.Lines, "\n")
	for _, want := range []string{"nightly", "3 of 4 done", "1.5 jobs/s, 2s to go", "1 ended by failures of the fleet", "≤100ms", "timed_out        ValueError bad", string(s.Clusters[0].Example)} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q:\n%s", want, text)
		}
	}
	if slices.ContainsFunc(v.Lines, func(l string) bool { return strings.Contains(l, "\x1b") }) {
		t.Errorf("an escape reaches the terminal: %q", text)
	}
	s.Batch.Counts = map[job.State]int64{job.Finished: 4}
	s.Batch.EndedAt = time.Now()
	if v, err = look(t.Context()); err != nil || !v.Over {
		t.Errorf("it is over: %+v, %v", v, err)
	}
}
