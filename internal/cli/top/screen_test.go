package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func someFleet(t *testing.T) (f api.Fleet) {
	t.Helper()
	raw, err := os.ReadFile("testdata/fleet.json")
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestLinesWithoutAToken checks that a tenant sees sums, and its own jobs.
func TestLinesWithoutAToken(t *testing.T) {
	t.Parallel()
	f := someFleet(t)
	f.Workers, f.Queue = nil, nil
	out := strings.Join(Lines(f, nil), "\n")
	if !strings.Contains(out, "WORKERS") || !strings.Contains(out, "nothing waits or runs") || strings.Contains(out, "jobs/s") {
		t.Error(out)
	}
}

// TestScreen checks that the screen fits at all times.
func TestScreen(t *testing.T) {
	t.Parallel()
	f := someFleet(t)
	for i := range 100 {
		f.Workers = append(f.Workers, store.Worker{ID: fmt.Sprintf("x%03d", i), Pool: "many", SeenAt: f.At})
	}
	var failed error
	look := func(context.Context) (api.Fleet, error) { return f, failed }
	m := &screen{ctx: context.Background(), every: time.Second, title: "assay top  http://x", look: Fleet(look)}
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
	step(m.refresh()())
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
	f.Workers = slices.Clone(f.Workers) // the earlier snapshot must not change
	f.Workers[1].Tally = &store.Tally{Outcomes: map[job.Outcome]int64{job.Succeeded: 50}}
	step(m.refresh()())
	if s := fits("later"); !strings.Contains(s, "succeeded 50 (+10)") {
		t.Errorf("what has come since is not told apart:\n%s", s)
	}
	failed = errors.New("no dispatcher")
	step(m.refresh()())
	if s := fits("unanswered"); !strings.Contains(s, "NOT ANSWERED: no dispatcher") || !strings.Contains(s, "workers 2") {
		t.Errorf("what was seen last is gone:\n%s", s)
	}
	if cmd := m.press("q"); cmd == nil || fmt.Sprintf("%T", cmd()) != "tea.QuitMsg" {
		t.Error("q does not quit")
	}
}
