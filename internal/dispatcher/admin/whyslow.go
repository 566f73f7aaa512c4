package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	nouns "github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// reportAge is the maximum age of a dispatcher's report.
	reportAge = 20 * time.Second
	// Bounds of the lists of an answer.
	slowTenants = 20
	slowWorkers = 100
)

// WhySlow returns the state of everything that can slow down the fleet, and a verdict. queue is a recent count of the
// waiting and running jobs.
func (a *Admin) WhySlow(ctx context.Context, queue []store.QueueGroup) (api.WhySlow, error) {
	out := api.WhySlow{At: time.Now().UTC(), Dispatchers: []nouns.Report{}, Stopped: []nouns.StoppedWorker{}, Pauses: []nouns.Pause{}}
	switch l, err := a.Leader(ctx); {
	case err == nil:
		out.Leader = &l
	case !errors.Is(err, job.ErrNotFound):
		return out, fmt.Errorf("read the leader: %w", err)
	}
	reports, err := a.Store.Reports(ctx, reportAge)
	if err != nil {
		return out, fmt.Errorf("read reports: %w", err)
	}
	for _, r := range reports {
		var d nouns.Report
		if json.Unmarshal(r.Body, &d) == nil && d.Dispatcher != "" { // a report of another release may be unreadable
			d.At = r.At
			if d.Waiting == nil {
				d.Waiting = map[string]int{}
			}
			out.Dispatchers = append(out.Dispatchers, d)
		}
	}
	if out.Database, err = a.Store.Database(ctx); err != nil {
		return out, fmt.Errorf("read the state of the database: %w", err)
	}
	workers, err := a.Store.Workers(ctx, fleet.Connected)
	if err != nil {
		return out, fmt.Errorf("list workers: %w", err)
	}
	noteWorkers(&out, workers)
	pauses, err := a.Pauses(ctx)
	if err != nil {
		return out, err
	}
	out.Pauses = append(out.Pauses, pauses.Pauses...)
	noteQueue(&out, queue)
	out.Verdict = verdict(&out)
	return out, nil
}

func noteWorkers(out *api.WhySlow, workers []store.Worker) {
	for _, w := range workers {
		out.Free, out.Results = out.Free+w.Free, out.Results+w.Results
		s, stopped := w.Stopped()
		switch {
		case stopped && len(out.Stopped) < slowWorkers:
			out.Stopped = append(out.Stopped, s)
		case stopped:
			out.StoppedMore++
		}
	}
}

func noteQueue(out *api.WhySlow, queue []store.QueueGroup) {
	out.Tenants = nouns.TenantQueues(queue)
	for _, t := range out.Tenants {
		out.Queued, out.Dispatched, out.Running = out.Queued+t.Queued, out.Dispatched+t.Dispatched, out.Running+t.Running
	}
	slices.SortStableFunc(out.Tenants, func(a, b nouns.TenantQueue) int { return cmp.Compare(b.OldestSeconds, a.OldestSeconds) })
	out.Tenants = out.Tenants[:min(len(out.Tenants), slowTenants)]
}

// finding checks one possible cause. It returns "" if it finds none.
type finding func(w *api.WhySlow) string

// findings are ordered by gravity: the first ones stop the fleet.
var findings = []finding{noLeader, failedLooks, fullLocks, fullConnections, stuckResults, slowLooks, heldVacuum, slowReaps, busyBulk, unclaimed, undated, manyCallbacks,
	staleUpkeep, manyDays, stoppedWorkers, pausedWork, noRoom}

// verdict returns the findings, the gravest first.
func verdict(w *api.WhySlow) (all []string) {
	for _, f := range findings {
		if text := f(w); text != "" {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		all = []string{"Nothing stands out."}
	}
	return all
}

// The verdict has the bounds of the chart's alerts.
const (
	lookLimit     = 1000.0 // milliseconds
	reapLimit     = 10_000.0
	holderLimit   = 600.0 // seconds
	dispatchLimit = 120.0
	callbackLimit = 1000
	upkeepLimit   = 6 * time.Hour
	daysLimit     = 7
	bulkLimit     = 200
	fullShare     = 0.7
)

func noLeader(w *api.WhySlow) string {
	if w.Leader == nil {
		return "No dispatcher leads: nothing is scheduled. Read the log of a dispatcher; it needs Postgres."
	}
	return ""
}

// leading returns the report of the leader; an empty one if there is none.
func leading(w *api.WhySlow) nouns.Report {
	for _, d := range w.Dispatchers {
		if d.Leads {
			return d
		}
	}
	return nouns.Report{}
}

func failedLooks(w *api.WhySlow) string {
	if d := leading(w); d.Looks.Failed > 0 {
		return fmt.Sprintf("Looks fail: %d of %d in the last minute at %s; the last error is %q. Jobs of their classes stay queued meanwhile.", d.Looks.Failed, d.Looks.Count, d.Dispatcher, d.Looks.LastError)
	}
	return ""
}

func slowLooks(w *api.WhySlow) string {
	if d := leading(w); d.Looks.MaxMS > lookLimit {
		return fmt.Sprintf("Looks are slow: %.0f ms in the mean and %.0f ms at most in the last minute at %s.", d.Looks.MeanMS, d.Looks.MaxMS, d.Dispatcher)
	}
	return ""
}

func fullLocks(w *api.WhySlow) string {
	if d := w.Database; d.LocksMax > 0 && float64(d.Locks) > fullShare*float64(d.LocksMax) {
		return fmt.Sprintf("The lock table of Postgres is nearly full: %d of %d. Raise max_locks_per_transaction and restart Postgres, or shorten ASSAY_RETENTION.", d.Locks, d.LocksMax)
	}
	return ""
}

func fullConnections(w *api.WhySlow) string {
	if d := w.Database; d.ConnectionsMax > 0 && float64(d.Connections) > 0.9*float64(d.ConnectionsMax) {
		return fmt.Sprintf("Postgres has hardly a connection left: %d of %d are in use. Raise max_connections, or lower pool_max_conns in ASSAY_DATABASE_URL.", d.Connections, d.ConnectionsMax)
	}
	return ""
}

func stuckResults(w *api.WhySlow) string {
	if w.Results > 10 && int64(w.Results) > w.Running/2 {
		return fmt.Sprintf("Results do not get through: %d wait at workers, and %d jobs run. Look for errors of \"finish\" in the dispatchers' logs.", w.Results, w.Running)
	}
	return ""
}

func heldVacuum(w *api.WhySlow) string {
	h := w.Database.Holder
	if h == nil || h.Seconds < holderLimit && (h.Seconds > 0 || h.Transactions < 1_000_000) {
		return ""
	}
	about := fmt.Sprintf("%s %s", h.Kind, cmp.Or(h.Name, "without a name"))
	if h.PID != 0 {
		about += fmt.Sprintf(" (pid %d)", h.PID)
	}
	return fmt.Sprintf("Postgres cannot remove dead rows: %s holds a snapshot of %s and %d transactions ago.%s",
		about, time.Duration(h.Seconds*float64(time.Second)).Round(time.Second), h.Transactions, release(h))
}

// release returns the advice for the holder of a snapshot, after a space, or "".
func release(h *nouns.Holder) string {
	name := "'" + strings.ReplaceAll(h.Name, "'", "''") + "'"
	switch {
	case h.Kind == "prepared":
		return " Finish it: ROLLBACK PREPARED " + name + "."
	case h.Kind == "slot" && h.PID == 0:
		return " Drop it if its standby is gone: SELECT pg_drop_replication_slot(" + name + ")."
	case h.Kind == "slot", h.Kind == "standby":
		return " End the long query at the standby, or turn off its hot_standby_feedback."
	case h.PID != 0:
		return fmt.Sprintf(" End it: SELECT pg_terminate_backend(%d).", h.PID)
	}
	return ""
}

func slowReaps(w *api.WhySlow) string {
	d := leading(w)
	if d.Reaps.MaxMS <= reapLimit && d.Reaps.Failed == 0 {
		return ""
	}
	slowest, most := "", 0.0
	for step, ms := range d.ReapStepsMS {
		if ms > most {
			slowest, most = step, ms
		}
	}
	text := fmt.Sprintf("The reaper is slow: a round took up to %.0f ms; its slowest step is %s with %.0f ms.", d.Reaps.MaxMS, slowest, most)
	if d.Reaps.Failed > 0 {
		text += fmt.Sprintf(" %d of %d rounds failed in part; the last error is %q.", d.Reaps.Failed, d.Reaps.Count, d.Reaps.LastError)
	}
	return text
}

func busyBulk(w *api.WhySlow) string {
	for _, d := range w.Dispatchers {
		for _, kind := range slices.Sorted(maps.Keys(d.Waiting)) {
			if d.Waiting[kind] > bulkLimit {
				return fmt.Sprintf("Workers wait for %s: %d messages of kind %s have no answer. Postgres is slow, or there are too few dispatchers.", d.Dispatcher, d.Waiting[kind], kind)
			}
		}
	}
	return ""
}

func unclaimed(w *api.WhySlow) string {
	if s := w.Database.OldestDispatched; s > dispatchLimit {
		return fmt.Sprintf("Dispatched jobs are not claimed: the oldest has waited for %.0f s. Workers get no messages from NATS, or are full.", s)
	}
	return ""
}

func undated(w *api.WhySlow) string {
	if n := w.Database.Undated; n > 0 {
		return fmt.Sprintf("%d jobs are of a day without a partition. Check the clocks of the dispatchers.", n)
	}
	return ""
}

func manyCallbacks(w *api.WhySlow) string {
	if n := w.Database.Callbacks; n > callbackLimit {
		return fmt.Sprintf("%d callbacks are not delivered. Their receivers do not answer.", n)
	}
	return ""
}

func staleUpkeep(w *api.WhySlow) string {
	var late []string
	for task, at := range leading(w).Upkeep {
		if d := w.At.Sub(at); d > upkeepLimit {
			late = append(late, fmt.Sprintf("%s (%s ago)", task, d.Round(time.Minute)))
		}
	}
	if len(late) == 0 {
		return ""
	}
	slices.Sort(late)
	return "Upkeep has not succeeded for long: " + strings.Join(late, ", ") + ". The leader's log has the error."
}

func manyDays(w *api.WhySlow) string {
	if n := w.Database.LiveDays; n > daysLimit {
		return fmt.Sprintf("Statements of the queue read %d days of jobs: a job of %d days ago is not over. List the oldest: assay job list --state queued.", n, n-1)
	}
	return ""
}

func stoppedWorkers(w *api.WhySlow) string {
	n := len(w.Stopped) + w.StoppedMore
	if n == 0 {
		return ""
	}
	by := map[string]int{}
	for _, s := range w.Stopped {
		by[s.State]++
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%d %s", by[state], state))
	}
	return fmt.Sprintf("%d connected workers take no jobs: %s.", n, strings.Join(parts, ", "))
}

func pausedWork(w *api.WhySlow) string {
	if len(w.Pauses) == 0 {
		return ""
	}
	p := w.Pauses[0]
	return fmt.Sprintf("%d pauses hold back work, such as the pause of %s %s by %s.", len(w.Pauses), p.Kind, p.Name, p.By)
}

func noRoom(w *api.WhySlow) string {
	if w.Queued > 0 && w.Free == 0 {
		return fmt.Sprintf("All places are taken: %d jobs wait and %d run. Add workers.", w.Queued, w.Running)
	}
	return ""
}
