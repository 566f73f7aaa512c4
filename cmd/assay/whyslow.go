package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/fleet"
)

type adminWhySlowCmd struct{}

// Run shows the verdict first, then the figures.
func (adminWhySlowCmd) Run(a *app) error {
	admin, err := a.operator()
	if err != nil {
		return err
	}
	w, err := admin.WhySlow(a.ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(w)
	}
	for _, line := range w.Verdict {
		a.printf("%s\n", show.Plain(line))
	}
	a.printf("\nqueue       queued %d, dispatched %d, running %d, free %d; results waiting at workers %d\n", w.Queued, w.Dispatched, w.Running, w.Free, w.Results)
	for _, line := range databaseLines(w.Database) {
		a.printf("%s\n", show.Plain(line))
	}
	if err := dispatcherTable(a, w); err != nil {
		return err
	}
	if len(w.Tenants) > 0 {
		a.printf("\n")
		t := show.NewTable(a.stdout, "TENANT", "OLDEST", "QUEUED", "DISPATCHED", "RUNNING")
		for _, q := range w.Tenants {
			t.Row(q.Tenant, seconds(q.OldestSeconds), q.Queued, q.Dispatched, q.Running)
		}
		if err := t.End(); err != nil {
			return err
		}
	}
	if len(w.Stopped) > 0 {
		a.printf("\n")
		t := show.NewTable(a.stdout, "WORKER", "POOL", "STATE", "RUNNING", "REASON")
		for _, s := range w.Stopped {
			t.Row(s.ID, s.Pool, s.State, s.Running, cmp.Or(s.Reason, "-"))
		}
		return t.End()
	}
	return nil
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

func databaseLines(d fleet.Database) []string {
	lines := []string{
		fmt.Sprintf("database    connections %d of %d, locks %d of %d, dead rows %d", d.Connections, d.ConnectionsMax, d.Locks, d.LocksMax, d.DeadRows),
		fmt.Sprintf("partitions  %d, %d of them read by the queue; jobs without a day %d", d.Partitions, d.LiveDays, d.Undated),
		fmt.Sprintf("callbacks   %d open; oldest dispatched job %s", d.Callbacks, seconds(d.OldestDispatched)),
	}
	if h := d.Holder; h != nil {
		line := fmt.Sprintf("snapshot    oldest: %s %s", h.Kind, cmp.Or(h.Name, "-"))
		if h.PID != 0 {
			line += fmt.Sprintf(", pid %d", h.PID)
		}
		if h.Statement != "" {
			line += fmt.Sprintf(", %s, %q", h.State, h.Statement)
		}
		lines = append(lines, fmt.Sprintf("%s, for %s and %d transactions", line, seconds(h.Seconds), h.Transactions))
	}
	if len(d.Feedback) > 0 {
		lines = append(lines, "standbys    hold back vacuum: "+strings.Join(d.Feedback, ", "))
	}
	return lines
}

func dispatcherTable(a *app, w api.WhySlow) error {
	a.printf("\n")
	t := show.NewTable(a.stdout, "DISPATCHER", "LEADS", "LOOKS", "FAILED", "MEAN", "MAX", "REAPS", "MAX", "SLOWEST STEP", "WAITING")
	for _, d := range w.Dispatchers {
		leads := "-"
		if d.Leads {
			leads = "yes"
		}
		step := "-"
		for name, ms := range d.ReapStepsMS {
			if ms > d.ReapStepsMS[step] || step == "-" {
				step = name
			}
		}
		if step != "-" {
			step += fmt.Sprintf(" %.0fms", d.ReapStepsMS[step])
		}
		var waiting []string
		for _, kind := range slices.Sorted(maps.Keys(d.Waiting)) {
			if n := d.Waiting[kind]; n > 0 {
				waiting = append(waiting, fmt.Sprintf("%s %d", kind, n))
			}
		}
		t.Row(d.Dispatcher, leads, d.Looks.Count, d.Looks.Failed, fmt.Sprintf("%.0fms", d.Looks.MeanMS), fmt.Sprintf("%.0fms", d.Looks.MaxMS),
			d.Reaps.Count, fmt.Sprintf("%.0fms", d.Reaps.MaxMS), step, cmp.Or(strings.Join(waiting, ", "), "-"))
	}
	return t.End()
}
