package dispatcher_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// countingCalls counts the calls that count the queue.
type countingCalls struct {
	store.Store
	stats, queue atomic.Int64
}

func (c *countingCalls) Stats(ctx context.Context) (store.Stats, error) {
	c.stats.Add(1)
	return c.Store.Stats(ctx)
}

func (c *countingCalls) Queue(ctx context.Context) ([]store.QueueGroup, error) {
	c.queue.Add(1)
	return c.Store.Queue(ctx)
}

// reportsOf returns the reports of all dispatchers.
func reportsOf(f *fleet) (leader *nouns.Report, others []nouns.Report) {
	f.Helper()
	all, err := f.store.Reports(f.Context(), time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range all {
		var d nouns.Report
		if err := json.Unmarshal(r.Body, &d); err != nil {
			f.Fatal(err)
		}
		if d.Leads {
			leader = &d
		} else {
			others = append(others, d)
		}
	}
	return leader, others
}

// TestOnlyTheLeaderCounts checks that one of two dispatchers counts the queue, and that both write reports.
func TestOnlyTheLeaderCounts(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	first, second := &countingCalls{Store: f.store}, &countingCalls{Store: f.store}
	f.start(quick, first, nil)
	f.until("a leader reports", func() bool { l, _ := reportsOf(f); return l != nil })
	f.start(quick, second, nil)
	f.until("the other one reports", func() bool { _, others := reportsOf(f); return len(others) == 1 })
	before, counted := second.stats.Load(), first.stats.Load()
	f.until("the leader has counted again and again", func() bool { return first.stats.Load() >= counted+5 })
	if n := second.stats.Load() - before; n > 1 || second.queue.Load() > 0 {
		t.Errorf("the dispatcher that does not lead has counted %d times, and the queue %d times", n, second.queue.Load())
	}
}

// TestReportsFailedLooks checks that the leader's report has the failed passes with their error, and the last round
// of reaping.
func TestReportsFailedLooks(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.start(quick, &unscheduling{Store: f.store}, nil)
	f.work("w1", 2, hang)
	f.submit(3)
	f.until("failed looks are reported", func() bool {
		l, _ := reportsOf(f)
		return l != nil && l.Looks.Failed > 0 && l.Looks.LastError != "" && l.Reaps.Count > 0 && len(l.ReapStepsMS) > 3
	})
}

// unscheduling fails every pass.
type unscheduling struct{ store.Store }

func (*unscheduling) Schedule(context.Context, []string, int) ([]store.Dispatch, error) {
	return nil, job.ErrUnavailable
}
