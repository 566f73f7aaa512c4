package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func someFleet() api.Fleet {
	at := time.Now().UTC().Truncate(time.Second)
	return api.Fleet{
		At:    at,
		Pools: []api.PoolSummary{{Pool: "default", Workers: 2, Slots: 12, Busy: 5}},
		Workers: []store.Worker{
			{ID: "w2\x1b[31m", Pool: "default", Slots: 4, Draining: true, SeenAt: at.Add(-9 * time.Second)},
			{ID: "w1", Pool: "default", Slots: 8, Busy: 5, SeenAt: at.Add(-2 * time.Second), Host: json.RawMessage(`{"isolations":["cell","task"]}`),
				Tally: &store.Tally{Outcomes: map[job.Outcome]int64{job.Succeeded: 40, job.Failed: 2}, Back: map[job.Reason]int64{job.ReasonInfra: 1}, PerSecond: 3.25, Sessions: 6}},
		},
		Queue: []store.QueueGroup{
			{Pool: "default", Tenant: "acme", Priority: 5, Queued: 80000, Dispatched: 3, Running: 5, AtLeast: true},
			{Pool: "default?label.gpu=a100", Tenant: "beta", Queued: 7},
		},
	}
}

// TestLinesWithoutAToken: a tenant sees sums, and its own jobs.
func TestLinesWithoutAToken(t *testing.T) {
	t.Parallel()
	f := someFleet()
	f.Workers, f.Queue = nil, nil
	out := strings.Join(Lines(f, nil), "\n")
	if !strings.Contains(out, "WORKERS") || !strings.Contains(out, "nothing waits or runs") || strings.Contains(out, "jobs/s") {
		t.Error(out)
	}
}

// TestScreen: what is shown fits, whatever there is and happens.
func TestScreen(t *testing.T) {
	t.Parallel()
	f := someFleet()
	for i := range 100 {
		f.Workers = append(f.Workers, store.Worker{ID: fmt.Sprintf("x%03d", i), Pool: "many", SeenAt: f.At})
	}
	var failed error
	m := &screen{ctx: context.Background(), every: time.Second, url: "http://x", look: func(context.Context) (api.Fleet, error) { return f, failed }}
	fits := func(when string) string {
		t.Helper()
		lines := strings.Split(m.content(), "\n")
		if len(lines) > 20 {
			t.Errorf("%s: %d lines on a screen of 20", when, len(lines))
		}
		for _, l := range lines {
			if n := len([]rune(l)); n > 60 {
				t.Errorf("%s: a line of %d in a width of 60", when, n)
			}
		}
		return strings.Join(lines, "\n")
	}
	step := func(msg tea.Msg) {
		if _, cmd := m.Update(msg); cmd == nil && fmt.Sprintf("%T", msg) == "top.seen" {
			t.Error("nothing is due after a look")
		}
	}
	step(tea.WindowSizeMsg{Width: 60, Height: 20})
	fits("before the first look")
	step(m.again()())
	if s := fits("at first"); !strings.Contains(s, "workers 2") {
		t.Error(s)
	}
	for range 20 {
		m.press("pgdown")
		fits("further down")
	}
	if s := fits("at the end"); !strings.Contains(s, "acme") {
		t.Errorf("the end is not reached:\n%s", s)
	}
	m.press("home")
	f.Workers = slices.Clone(f.Workers) // what was seen stays what it was
	f.Workers[1].Tally = &store.Tally{Outcomes: map[job.Outcome]int64{job.Succeeded: 50}}
	step(m.again()())
	if s := fits("later"); !strings.Contains(s, "succeeded 50 (+10)") {
		t.Errorf("what has come since is not told apart:\n%s", s)
	}
	failed = errors.New("no dispatcher")
	step(m.again()())
	if s := fits("unanswered"); !strings.Contains(s, "NOT ANSWERED: no dispatcher") || !strings.Contains(s, "workers 2") {
		t.Errorf("what was seen last is gone:\n%s", s)
	}
	if cmd := m.press("q"); cmd == nil || fmt.Sprintf("%T", cmd()) != "tea.QuitMsg" {
		t.Error("q does not quit")
	}
}
