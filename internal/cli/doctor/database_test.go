package doctor

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/fleet"
)

// TestDatabase checks that a default Postgres suffices for a small fleet, and that each insufficient setting is named
// with its remedy.
func TestDatabase(t *testing.T) {
	t.Parallel()
	small := func() (fleet.Database, []fleet.Report) {
		return fleet.Database{LocksMax: 6400, ConnectionsMax: 97, Partitions: 38, LiveDays: 3, Indexes: 9, Settings: map[string]string{
			"autovacuum": "on", "track_counts": "on", "autovacuum_naptime": "60s", "autovacuum_max_workers": "3", "max_locks_per_transaction": "64",
			"superuser_reserved_connections": "3",
		}}, []fleet.Report{{MaxConnections: 16}, {MaxConnections: 16}}
	}
	for _, c := range []struct {
		name   string
		edit   func(*fleet.Database, *[]fleet.Report)
		check  string // the finding that is not ok; empty: all are
		advice string
	}{
		{"two dispatchers", func(*fleet.Database, *[]fleet.Report) {}, "", ""},
		{"ten dispatchers", func(d *fleet.Database, r *[]fleet.Report) {
			*r = append(*r, fleet.Report{MaxConnections: 128})
			d.LocksMax = 12800
		}, "database connections", "max_connections = 168"},
		{"a job of two months ago", func(d *fleet.Database, _ *[]fleet.Report) { d.LiveDays = 60 }, "database locks", "max_locks_per_transaction = 256"},
		{"no autovacuum", func(d *fleet.Database, _ *[]fleet.Report) { d.Settings["autovacuum"] = "off" }, "autovacuum", "autovacuum = on"},
		{"slow autovacuum", func(d *fleet.Database, _ *[]fleet.Report) { d.Settings["autovacuum_naptime"] = "3600s" }, "autovacuum", "autovacuum_naptime = 15s"},
		{"feedback", func(d *fleet.Database, _ *[]fleet.Report) { d.Feedback = []string{"replica1"} }, "standby feedback", "hot_standby_feedback = off"},
		{"slot", func(d *fleet.Database, _ *[]fleet.Report) {
			d.Holder = &fleet.Holder{Kind: "slot", Name: "old", State: "inactive", Transactions: 5}
		}, "oldest snapshot", "pg_drop_replication_slot('old')"},
		{"dump", func(d *fleet.Database, _ *[]fleet.Report) {
			d.Holder = &fleet.Holder{Kind: "session", PID: 42, Name: "pg_dump", Seconds: 4000}
		}, "oldest snapshot", "pg_terminate_backend(42)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, r := small()
			c.edit(&d, &r)
			for _, f := range Database(d, r) {
				if wrong := f.Check == c.check; wrong != (f.Level != OK) {
					t.Errorf("%+v", f)
				} else if wrong && !strings.Contains(f.Advice, c.advice) {
					t.Errorf("the advice is %q, want %q", f.Advice, c.advice)
				}
			}
		})
	}
}
