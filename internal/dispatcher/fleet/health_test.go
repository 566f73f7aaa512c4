package fleet

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   map[string]tally
		sick []string
	}{
		"nobody worked":              {nil, nil},
		"one stands out":             {map[string]tally{"a": {100, 0}, "b": {90, 1}, "c": {10, 10}}, []string{"c"}},
		"of two":                     {map[string]tally{"a": {20, 0}, "b": {0, 5}}, []string{"b"}},
		"too few to say":             {map[string]tally{"a": {100, 0}, "b": {0, 4}}, nil},
		"a rate that is low":         {map[string]tally{"a": {1000, 0}, "b": {1000, 100}}, nil},
		"everybody fails":            {map[string]tally{"a": {10, 9}, "b": {10, 8}, "c": {10, 10}}, nil},
		"alone":                      {map[string]tally{"a": {0, 50}}, nil},
		"beside one that did little": {map[string]tally{"a": {0, 50}, "b": {1, 0}}, nil},
	} {
		h := newHealth()
		for w, n := range c.of {
			outcomes(h, w, n.done, n.failed)
		}
		got := h.sick([]string{"a", "b", "c", "never heard of"})
		if sick := slices.Sorted(maps.Keys(got)); !slices.Equal(sick, c.sick) {
			t.Errorf("%s: %v, want %v", name, got, c.sick)
		}
	}
}

func TestHealthForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHealth()
		sick := func() bool { return len(h.sick([]string{"good", "bad"})) > 0 }
		outcomes(h, "good", 100, 0)
		outcomes(h, "bad", 0, 3)
		time.Sleep(healthWindow/2 + time.Second)
		outcomes(h, "good", 100, 0)
		outcomes(h, "bad", 0, 3)
		if !sick() {
			t.Error("failures of one window are not added up")
		}
		h.forget("bad")
		if sick() {
			t.Error("probation does not begin anew")
		}
		outcomes(h, "bad", 0, 6)
		time.Sleep(healthWindow + time.Second)
		if sick() {
			t.Error("old failures count")
		}
	})
}

// outcomes makes a worker finish some jobs and give up others, which the worker "elsewhere" then finishes.
func outcomes(h *health, worker string, done, failed int) {
	for range done {
		h.recordResults(worker, []job.ID{job.NewID()})
	}
	for range failed {
		id := []job.ID{job.NewID()}
		h.failed(worker, id)
		h.recordResults("elsewhere", id)
	}
}

// TestHealthCountsJobs checks that a job counts once against a worker, however often it fails there.
func TestHealthCountsJobs(t *testing.T) {
	t.Parallel()
	h := newHealth()
	outcomes(h, "good", 100, 0)
	end := func(ids ...job.ID) map[string]string {
		h.recordResults("good", ids)
		return h.sick([]string{"good", "bad"})
	}
	for range 100 {
		h.failed("bad", []job.ID{"1", "2"})
	}
	if sick := end("1", "2"); len(sick) > 0 {
		t.Errorf("two jobs made it sick: %v", sick)
	}
	h.failed("bad", []job.ID{"3", "4", "5"})
	if sick := end("3", "4", "5"); len(sick) == 0 {
		t.Error("five jobs failed there and ended elsewhere, but it is not sick")
	}
}

// TestHealthIgnoresJobsThatFailEverywhere checks that jobs without a result elsewhere are no evidence, since clients
// choose them.
func TestHealthIgnoresJobsThatFailEverywhere(t *testing.T) {
	t.Parallel()
	h := newHealth()
	outcomes(h, "good", 100, 0)
	for range 100 {
		id := job.NewID()
		h.failed("bad", []job.ID{id})
		h.failed("bad", []job.ID{id})
		h.recordResults("bad", []job.ID{id}) // the job's fault, or temporary
		h.failed("bad", []job.ID{job.NewID()})
	}
	if sick := h.sick([]string{"good", "bad"}); len(sick) > 0 {
		t.Errorf("sick without a job that ended elsewhere: %v", sick)
	}
}
