package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/fleet"
)

// Database judges the settings of a fleet's Postgres against the dispatchers that use it.
func Database(d fleet.Database, dispatchers []fleet.Report) []Finding {
	return []Finding{judgeConnections(d, dispatchers), judgeLocks(d, dispatchers), judgeVacuum(d), judgeFeedback(d), judgeHolder(d)}
}

// spare is how many connections are left to people, backups and the migration.
const spare = 5

// connectionsOf returns how many connections the dispatchers may open together.
func connectionsOf(dispatchers []fleet.Report) (n int64) {
	for _, r := range dispatchers {
		n += int64(r.MaxConnections)
	}
	return n
}

func judgeConnections(d fleet.Database, dispatchers []fleet.Report) Finding {
	const check = "database connections"
	want := connectionsOf(dispatchers)
	found := fmt.Sprintf("%d dispatchers may open %d of %d", len(dispatchers), want, d.ConnectionsMax)
	if want+spare > d.ConnectionsMax {
		return Finding{check, Limited, found, fmt.Sprintf("set max_connections = %d and restart Postgres, or lower pool_max_conns in ASSAY_DATABASE_URL; an upgrade runs up to twice as many dispatchers for a while",
			want+spare+reserved(d))}
	}
	return ok(check, found)
}

func reserved(d fleet.Database) int64 {
	n, _ := strconv.ParseInt(d.Settings["superuser_reserved_connections"], 10, 64)
	return n
}

// judgeLocks compares the lock table with the locks of the fleet's statements. A statement of the queue locks each live
// partition and its indexes; one of history locks a few partitions more.
func judgeLocks(d fleet.Database, dispatchers []fleet.Report) Finding {
	const check = "database locks"
	const history = 3 // partitions of history that one page reads at a time
	need := connectionsOf(dispatchers) * (d.LiveDays + history) * (1 + d.Indexes)
	found := fmt.Sprintf("the lock table has room for %d; %d partitions of %d are live, with %d indexes each, and the fleet may need %d", d.LocksMax, d.LiveDays, d.Partitions, d.Indexes, need)
	if need <= d.LocksMax {
		return ok(check, found)
	}
	per, _ := strconv.ParseInt(d.Settings["max_locks_per_transaction"], 10, 64)
	times := (need + d.LocksMax - 1) / max(d.LocksMax, 1)
	return Finding{check, Limited, found, fmt.Sprintf("set max_locks_per_transaction = %d and restart Postgres; if many partitions are live, end the oldest jobs that are not over (assay job list --state queued)", max(per, 64)*times)}
}

func judgeVacuum(d fleet.Database) Finding {
	const check = "autovacuum"
	naptime := d.Settings["autovacuum_naptime"]
	switch {
	case d.Settings["autovacuum"] == "off" || d.Settings["track_counts"] == "off":
		return Finding{check, Limited, "off", "set autovacuum = on and track_counts = on; the tables of jobs change all the time, and every look becomes slower without it"}
	case intOf(naptime) > 60:
		return Finding{check, Limited, "looks every " + naptime, "set autovacuum_naptime = 15s: a busy queue has 100,000 dead rows a minute"}
	case intOf(d.Settings["autovacuum_max_workers"]) < 2:
		return Finding{check, Limited, "one worker", "set autovacuum_max_workers = 3, so that a large table of history does not keep the queue waiting"}
	}
	return ok(check, fmt.Sprintf("on, every %s, %s workers, %d dead rows", naptime, d.Settings["autovacuum_max_workers"], d.DeadRows))
}

// intOf reads the number at the beginning of a setting such as 60s.
func intOf(setting string) int {
	n, _ := strconv.Atoi(strings.TrimRight(setting, "abcdefghijklmnopqrstuvwxyzBMGT"))
	return n
}

func judgeFeedback(d fleet.Database) Finding {
	const check = "standby feedback"
	if len(d.Feedback) > 0 {
		return Finding{check, Limited, strings.Join(d.Feedback, ", ") + " hold back vacuum",
			"set hot_standby_feedback = off there, or keep queries on the standby short: a long one makes every look of the scheduler slower"}
	}
	return ok(check, "off")
}

func judgeHolder(d fleet.Database) Finding {
	const check = "oldest snapshot"
	h := d.Holder
	switch {
	case h == nil:
		return ok(check, "none")
	case h.Kind == "slot" && h.State == "inactive":
		return Finding{check, Limited, fmt.Sprintf("inactive slot %s, %d transactions old", h.Name, h.Transactions), "drop it: SELECT pg_drop_replication_slot('" + h.Name + "')"}
	case h.Kind == "prepared":
		return Finding{check, Limited, fmt.Sprintf("prepared transaction %s, %d transactions old", h.Name, h.Transactions), "end it: ROLLBACK PREPARED '" + h.Name + "'"}
	case h.Seconds > 600:
		return Finding{check, Limited, fmt.Sprintf("%s %s (pid %d) for %.0f s", h.Kind, h.Name, h.PID, h.Seconds), fmt.Sprintf("end it: SELECT pg_terminate_backend(%d)", h.PID)}
	}
	return ok(check, fmt.Sprintf("%.0f s", h.Seconds))
}
