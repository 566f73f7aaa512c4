package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
)

// TestVerdict checks that each fault is named with its figures, the gravest first, and that a healthy fleet has none.
func TestVerdict(t *testing.T) {
	t.Parallel()
	now := time.Now()
	healthy := func() *api.WhySlow {
		return &api.WhySlow{
			At: now, Leader: &fleet.Leader{Holder: "h/1"}, Queued: 100, Running: 20, Free: 3,
			Dispatchers: []fleet.Report{
				{Dispatcher: "h/0", Waiting: map[string]int{"finish": 1}},
				{
					Dispatcher: "h/1", Leads: true, Looks: fleet.Timings{Count: 60, MeanMS: 12, MaxMS: 30}, Reaps: fleet.Timings{Count: 30, MeanMS: 5, MaxMS: 20},
					Upkeep: map[string]time.Time{"forget": now.Add(-time.Hour)},
				},
			},
			Database: fleet.Database{Locks: 500, LocksMax: 6400, Connections: 40, ConnectionsMax: 97, LiveDays: 3, Holder: &fleet.Holder{Kind: "session", PID: 7, Seconds: 0.1}},
		}
	}
	if got := verdict(healthy()); len(got) != 1 || got[0] != "Nothing stands out." {
		t.Errorf("a fleet that works: %q", got)
	}
	for _, c := range []struct {
		name string
		edit func(*api.WhySlow)
		want []string // beginnings of the findings
	}{
		{"no leader", func(w *api.WhySlow) { w.Leader = nil }, []string{"No dispatcher leads"}},
		{"failed looks", func(w *api.WhySlow) {
			w.Dispatchers[1].Looks = fleet.Timings{Count: 4, Failed: 4, MeanMS: 15000, MaxMS: 15000, LastError: "timeout"}
		}, []string{`Looks fail: 4 of 4 in the last minute at h/1; the last error is "timeout"`, "Looks are slow: 15000 ms"}},
		{"another's old failure", func(w *api.WhySlow) { w.Dispatchers[0].Looks.Failed = 3 }, []string{"Nothing"}},
		{"a dump", func(w *api.WhySlow) {
			w.Database.Holder = &fleet.Holder{Kind: "session", PID: 4711, Name: "pg_dump", Seconds: 3600, Transactions: 12345}
		}, []string{"Postgres cannot remove dead rows: session pg_dump (pid 4711) holds a snapshot of 1h0m0s and 12345 transactions ago. End it: SELECT pg_terminate_backend(4711)."}},
		{"a slot", func(w *api.WhySlow) {
			w.Database.Holder = &fleet.Holder{Kind: "slot", Name: "standby1", Transactions: 9_000_000}
		}, []string{"Postgres cannot remove dead rows: slot standby1 holds a snapshot of 0s and 9000000 transactions ago. Drop it if its standby is gone: SELECT pg_drop_replication_slot('standby1')."}},
		{"a slot in use", func(w *api.WhySlow) {
			w.Database.Holder = &fleet.Holder{Kind: "slot", Name: "standby1", PID: 12, Transactions: 9_000_000}
		}, []string{"Postgres cannot remove dead rows: slot standby1 (pid 12) holds a snapshot of 0s and 9000000 transactions ago. End the long query at the standby, or turn off its hot_standby_feedback."}},
		{"a standby", func(w *api.WhySlow) {
			w.Database.Holder = &fleet.Holder{Kind: "standby", PID: 12, Transactions: 9_000_000}
		}, []string{"Postgres cannot remove dead rows: standby without a name (pid 12) holds a snapshot of 0s and 9000000 transactions ago. End the long query at the standby, or turn off its hot_standby_feedback."}},
		{"a prepared transaction", func(w *api.WhySlow) {
			w.Database.Holder = &fleet.Holder{Kind: "prepared", Name: "it's", Seconds: 3600, Transactions: 7}
		}, []string{"Postgres cannot remove dead rows: prepared it's holds a snapshot of 1h0m0s and 7 transactions ago. Finish it: ROLLBACK PREPARED 'it''s'."}},
		{"locks", func(w *api.WhySlow) { w.Database.Locks = 6000 }, []string{"The lock table of Postgres is nearly full: 6000 of 6400"}},
		{"connections", func(w *api.WhySlow) { w.Database.Connections = 95 }, []string{"Postgres has hardly a connection left: 95 of 97"}},
		{"results", func(w *api.WhySlow) { w.Results = 21 }, []string{"Results do not get through: 21 wait at workers"}},
		{"reaper", func(w *api.WhySlow) {
			w.Dispatchers[1].Reaps.MaxMS = 41000
			w.Dispatchers[1].ReapStepsMS = map[string]float64{"expired": 40000, "lease": 5}
		}, []string{"The reaper is slow: a round took up to 41000 ms; its slowest step is expired with 40000 ms."}},
		{"bulk", func(w *api.WhySlow) { w.Dispatchers[0].Waiting["claim"] = 900 }, []string{"Workers wait for h/0: 900 messages of kind claim"}},
		{"unclaimed", func(w *api.WhySlow) { w.Database.OldestDispatched = 200 }, []string{"Dispatched jobs are not claimed"}},
		{"upkeep", func(w *api.WhySlow) { w.Dispatchers[1].Upkeep["forget"] = now.Add(-50 * time.Hour) }, []string{"Upkeep has not succeeded for long: forget (50h0m0s ago)"}},
		{"old day", func(w *api.WhySlow) { w.Database.LiveDays = 60 }, []string{"Statements of the queue read 60 days of jobs"}},
		{"workers", func(w *api.WhySlow) {
			w.Stopped = []fleet.StoppedWorker{{ID: "a", State: "held"}, {ID: "b", State: "cordoned"}, {ID: "c", State: "held"}}
		}, []string{"3 connected workers take no jobs: 1 cordoned, 2 held."}},
		{"pause", func(w *api.WhySlow) { w.Pauses = []fleet.Pause{{Kind: "tenant", Name: "a", By: "op"}} }, []string{"1 pauses hold back work, such as the pause of tenant a by op."}},
		{"full", func(w *api.WhySlow) { w.Free = 0 }, []string{"All places are taken: 100 jobs wait and 20 run."}},
		{"callbacks", func(w *api.WhySlow) { w.Database.Callbacks = 10000 }, []string{"10000 callbacks are not delivered."}},
		{"undated", func(w *api.WhySlow) { w.Database.Undated = 3 }, []string{"3 jobs are of a day without a partition."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := healthy()
			c.edit(w)
			got := verdict(w)
			if len(got) != len(c.want) {
				t.Fatalf("the verdict is %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("line %d of the verdict is %q, want %q", i, got[i], want)
				}
			}
		})
	}
}
