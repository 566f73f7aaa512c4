package fleet

import (
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// TestChoose checks that a single job goes to the worker with the most free slots whose last heartbeat here is
// recent.
func TestChoose(t *testing.T) {
	t.Parallel()
	f, _ := newTestFleet()
	for _, w := range []control.WorkerInfo{
		{ID: "few", Pool: "p", Slots: 8, Busy: 6, Beat: 1},
		{ID: "most", Pool: "p", Slots: 4, Beat: 2},
		{ID: "unheard", Pool: "p", Slots: 99},
		{ID: "held", Pool: "p", Slots: 99, Held: "memory", Beat: 1},
		{ID: "drains", Pool: "p", Slots: 99, Draining: true, Beat: 1},
		{ID: "elsewhere", Pool: "q", Slots: 5, Beat: 1},
	} {
		f.RecordHeartbeat(w)
	}
	for class, want := range map[string]string{placement.Any: "elsewhere", "p": "most", "nobody's": ""} {
		if c, ok := f.Choose(class, time.Minute); c.Worker != want || ok != (want != "") {
			t.Errorf("%q: %+v, want %s", class, c, want)
		}
	}
	f.Took("most", 3)
	if c, _ := f.Choose("p", time.Minute); c.Worker != "few" || c.Beat != 1 {
		t.Errorf("when it has less room: %+v", c)
	}
	if c, ok := f.Choose("p", 0); ok {
		t.Errorf("heard of too long ago: %+v", c)
	}
}

// TestRanked checks that sessions go to workers with free slots in turn, then to busy ones. Quarantined and draining
// workers are last.
func TestRanked(t *testing.T) {
	t.Parallel()
	f, l := newTestFleet()
	host, err := json.Marshal(policy.Host{Isolations: []policy.Isolation{policy.Cell}})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []store.Worker{
		{ID: "a", Slots: 4}, {ID: "b", Slots: 2}, {ID: "busy", Slots: 4, InUse: 4}, {ID: "drains", Slots: 4, Draining: true},
		{ID: "cordoned", Slots: 4, Cordon: &store.Cordon{}}, {ID: "rests", Slots: 4, Quarantine: &store.Quarantine{Left: time.Hour}}, {ID: "other", Pool: "q", Slots: 4},
	} {
		w.Host = host
		l.ws[w.ID] = w
	}
	firsts := map[string]bool{}
	for range 10 {
		var ids []string
		for _, w := range f.Ranked(placement.Need{}) {
			if w.Pool == "" {
				ids = append(ids, w.ID)
			}
		}
		firsts[ids[0]] = true
		slices.Sort(ids[:2])
		slices.Sort(ids[3:])
		if !slices.Equal(ids, []string{"a", "b", "busy", "drains", "rests"}) {
			t.Fatalf("ranked %v", ids)
		}
	}
	if !firsts["a"] || !firsts["b"] {
		t.Errorf("always first: %v", firsts)
	}
}

// TestWorkersThatCameSince checks that no request is rejected for lack of a worker that another dispatcher knows.
func TestWorkersThatCameSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listing{ws: map[string]store.Worker{}}
		f := New(Config{Every: time.Minute, Log: slog.New(slog.DiscardHandler)}, l)
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		need := placement.Need{Pool: "gpu"}
		if why := f.Lack(need.Class()); why == "" || f.Ranked(need) != nil {
			t.Fatalf("without a worker: %q", why)
		}
		host, err := json.Marshal(policy.Host{Isolations: []policy.Isolation{policy.Cell}})
		if err != nil {
			t.Fatal(err)
		}
		l.ws["w"] = store.Worker{ID: "w", Pool: "gpu", Slots: 1, Host: host}
		time.Sleep(2 * freshFor)
		if why := f.Lack(need.Class()); why != "" {
			t.Error(why)
		}
		l.ws["w2"] = store.Worker{ID: "w2", Pool: "tpu", Slots: 1, Host: host}
		time.Sleep(2 * freshFor)
		if got := f.Ranked(placement.Need{Pool: "tpu"}); len(got) != 1 {
			t.Errorf("sessions find %v", got)
		}
	})
}
