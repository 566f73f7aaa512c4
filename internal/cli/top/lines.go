package top

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// Lines formats the fleet. It marks differences from first, unless that is nil.
func Lines(now api.Fleet, first *api.Fleet) []string {
	var b strings.Builder
	summary(&b, now)
	ends(&b, now, first)
	b.WriteByte('\n')
	workers(&b, now)
	b.WriteByte('\n')
	queue(&b, now.Queue)
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

func summary(b *strings.Builder, now api.Fleet) {
	var n, running, free, sessions int
	var rate, cores, used float64
	for _, p := range now.Pools {
		n, running, free, sessions = n+p.Workers, running+p.Running, free+p.Free, sessions+p.Sessions
		cores, used = cores+p.Cores, used+p.CoresUsed
	}
	for _, w := range now.Workers {
		if w.Tally != nil {
			rate += w.Tally.PerSecond
		}
	}
	var q store.QueueGroup
	for _, g := range now.Queue {
		q.Queued, q.Dispatched, q.Running = q.Queued+g.Queued, q.Dispatched+g.Dispatched, q.Running+g.Running
	}
	fmt.Fprintf(b, "workers %d   running %d   free %d   cores %.1f of %.0f   sessions %d", n, running, free, used, cores, sessions)
	if len(now.Workers) > 0 {
		fmt.Fprintf(b, "   %.1f jobs/s", rate)
	}
	fmt.Fprintf(b, "\nqueued %d   dispatched %d   running %d\n", q.Queued, q.Dispatched, q.Running)
}

// ends sums up the outcomes of attempts on the connected workers.
func ends(b *strings.Builder, now api.Fleet, first *api.Fleet) {
	if len(now.Workers) == 0 {
		return
	}
	outcomes, back := tallies(now)
	var outcomesThen, backThen map[string]int64
	if first != nil {
		outcomesThen, backThen = tallies(*first)
	}
	b.WriteString("ended  " + counts(outcomes, outcomesThen) + "\n")
	b.WriteString("handed back  " + counts(back, backThen) + "\n")
}

func tallies(f api.Fleet) (outcomes, back map[string]int64) {
	outcomes, back = map[string]int64{}, map[string]int64{}
	for _, w := range f.Workers {
		if w.Tally == nil {
			continue
		}
		for o, n := range w.Tally.Outcomes {
			outcomes[string(o)] += n
		}
		for r, n := range w.Tally.Back {
			back[string(r)] += n
		}
	}
	return outcomes, back
}

// counts lists the numbers, largest first, with their increases.
func counts(now, then map[string]int64) string {
	if len(now) == 0 {
		return "none"
	}
	keys := slices.SortedFunc(maps.Keys(now), func(a, b string) int { return cmp.Or(cmp.Compare(now[b], now[a]), cmp.Compare(a, b)) })
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = fmt.Sprintf("%s %d", show.Plain(k), now[k])
		if more := now[k] - then[k]; then != nil && more > 0 {
			parts[i] += fmt.Sprintf(" (+%d)", more)
		}
	}
	return strings.Join(parts, "  ")
}

func workers(b *strings.Builder, now api.Fleet) {
	if len(now.Workers) == 0 {
		t := show.NewTable(b, "POOL", "WORKERS", "RUNNING", "FREE", "CORES")
		for _, p := range now.Pools {
			t.Row(p.Pool, p.Workers, p.Running, p.Free, show.Cores(p.CoresUsed, p.Cores))
		}
		_ = t.End()
		return
	}
	t := show.NewTable(b, "WORKER", "POOL", "STATE", "LEVELS", "RUNNING", "FREE", "CORES", "JOBS/S", "SESSIONS", "HEARD")
	for _, w := range slices.SortedFunc(slices.Values(now.Workers), func(a, b store.Worker) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.ID, b.ID))
	}) {
		rate, sessions := "?", "?"
		if y := w.Tally; y != nil {
			rate, sessions = fmt.Sprintf("%.1f", y.PerSecond), fmt.Sprint(y.Sessions)
		}
		t.Row(w.ID, w.Pool, stateOf(w), levelsOf(w), w.Running, w.Free, show.Cores(w.CoresUsed, w.Cores), rate, sessions, fmt.Sprint(max(now.At.Sub(w.SeenAt), 0).Round(time.Second), " ago"))
	}
	_ = t.End()
}

// stateOf returns the most serious reason why a worker takes no jobs.
func stateOf(w store.Worker) string {
	switch {
	case w.Quarantine != nil:
		return "quarantined"
	case w.Cordon != nil:
		return "cordoned"
	case w.Draining:
		return "draining"
	case w.Held != "":
		return "held: " + w.Held
	}
	return "working"
}

func levelsOf(w store.Worker) string {
	var h policy.Host
	_ = json.Unmarshal(w.Host, &h) // a worker of another version: shown without
	levels := make([]string, len(h.Isolations))
	for i, l := range h.Isolations {
		levels[i] = string(l)
	}
	return cmp.Or(strings.Join(levels, ","), "?")
}

func queue(b *strings.Builder, groups []store.QueueGroup) {
	if len(groups) == 0 {
		b.WriteString("nothing waits or runs\n")
		return
	}
	t := show.NewTable(b, "POOL", "NEEDS", "TENANT", "PRIORITY", "QUEUED", "DISPATCHED", "RUNNING", "IN", "OLDEST", "WAITS FOR")
	for _, g := range groups {
		need := placement.ParseClass(g.Pool)
		about := ""
		if g.AtLeast {
			about = "~"
		}
		t.Row(placement.PoolOf(g.Pool), cmp.Or(need.String(), "-"), g.Tenant, g.Priority, about+fmt.Sprint(g.Queued), g.Dispatched, g.Running, cmp.Or(strings.Join(slices.Sorted(maps.Keys(g.RunningIn)), ","), "-"), oldest(g), cmp.Or(string(g.WaitsFor), "-"))
	}
	_ = t.End()
}

// oldest is the age of the first queued job of a group.
func oldest(g store.QueueGroup) string {
	if g.Queued == 0 {
		return "-"
	}
	return time.Duration(g.OldestSeconds * float64(time.Second)).Round(time.Second).String()
}

// cut shortens a line to the width of the screen, in characters; 0: unknown.
func cut(line string, width int) string {
	if r := []rune(line); width > 0 && len(r) > width {
		return string(r[:width])
	}
	return line
}
