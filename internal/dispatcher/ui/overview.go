package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// alertsShown is the most alerts; waitsShown, usesShown and overviewMost are the most rows of the tables of waiting jobs,
// tenants and workers.
const (
	alertsShown  = 10
	waitsShown   = 20
	usesShown    = 10
	overviewMost = 12
)

// overviewPage is the first page: the state of the fleet for the person on call.
type overviewPage struct {
	Alerts     []alert
	MoreAlerts int

	Running, Waiting int64
	AtLeast          bool      // Waiting may be more
	Oldest           time.Time // submission of the first waiting job; zero: none waits
	Workers, Free    int
	Cores, CoresUsed float64

	Waits     []waitRow
	MoreWaits int
	Uses      []useRow // by tenant, for operators
	MoreUses  int
	Rows      []workerRow // for operators
	MoreRows  int
	Pools     []api.PoolSummary

	Hour  *hourChart // nil: not read yet
	Later later
}

// alert is a condition that needs a person.
type alert struct {
	Class string // colour class: bad if jobs fail or cannot run, else stop
	Text  string
	URL   string // page or section with the details
}

// waitRow is a group of waiting jobs with one reason.
type waitRow struct {
	Pool, Needs, Tenant string
	Priority            int
	Queued              int64
	AtLeast             bool
	Since               time.Time
	Reason              job.Wait
	Message             string
	Class               string // colour class of the reason
}

// useRow is a tenant's share of the fleet.
type useRow struct {
	Tenant           string
	Running, Waiting int64
	AtLeast          bool
	Since            time.Time // of its first waiting job
	Parts            []display.Part
}

func (s *Server) overview(v *visit) error {
	var now api.Fleet
	if err := v.get("/v1/fleet", nil, &now); err != nil {
		return err
	}
	operator := v.who.Role >= identity.Operator
	p := overviewPage{Pools: now.Pools}
	p.sum(now)
	p.Waits = waitsOf(now)
	p.Alerts = alertsOf(now, p.Waits)
	p.Waits, p.MoreWaits = firstOf(p.Waits, waitsShown)
	if operator {
		p.Uses, p.MoreUses = firstOf(usesOf(now), usesShown)
		p.Rows, p.MoreRows = firstOf(rowsOf(now), overviewMost)
		var list api.PauseList
		if err := v.get("/v1/admin/pauses", nil, &list); err != nil {
			return err
		}
		for _, pause := range list.Pauses {
			p.Alerts = append(p.Alerts, alert{"stop", pausedText(pause), "/ui/workers#pauses"})
		}
	}
	hour, there, err := v.hour()
	if err != nil {
		return err
	}
	if p.Later = (later{!there, v.whole()}); there {
		p.Hour = hour
		if n := hour.lost(); n > 0 {
			p.Alerts = append([]alert{{"bad", "Jobs that the fleet lost in the last hour: " + display.Count(n), "/ui/jobs?outcome=lost"}}, p.Alerts...)
		}
	}
	p.Alerts, p.MoreAlerts = firstOf(p.Alerts, alertsShown)
	return v.show("overview", "Overview", true, p)
}

// firstOf returns the first rows, and the number of others.
func firstOf[T any](all []T, most int) ([]T, int) {
	if len(all) <= most {
		return all, 0
	}
	return all[:most], len(all) - most
}

// sum fills in the totals.
func (p *overviewPage) sum(now api.Fleet) {
	for _, pool := range now.Pools {
		p.Workers, p.Free = p.Workers+pool.Workers, p.Free+pool.Free
		p.Cores, p.CoresUsed = p.Cores+pool.Cores, p.CoresUsed+pool.CoresUsed
	}
	for _, g := range now.Queue {
		p.Running, p.Waiting, p.AtLeast = p.Running+g.Running, p.Waiting+g.Queued+g.Dispatched, p.AtLeast || g.AtLeast
		p.Oldest = earlier(p.Oldest, sinceOf(now.At, g))
	}
}

// sinceOf returns the submission of the first queued job of a group, or zero.
func sinceOf(at time.Time, g store.QueueGroup) time.Time {
	if g.Queued == 0 {
		return time.Time{}
	}
	return at.Add(-time.Duration(g.OldestSeconds * float64(time.Second)))
}

// earlier returns the earlier of two times; zero is no time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// waitsOf lists the waiting jobs: first those that no worker will take without a change, then the oldest.
func waitsOf(now api.Fleet) (rows []waitRow) {
	for _, g := range now.Queue {
		if g.Queued == 0 && g.WaitsFor == "" { // dispatched jobs without a reason are about to start
			continue
		}
		pool, needs := classParts(g.Pool)
		rows = append(rows, waitRow{Pool: pool, Needs: needs, Tenant: g.Tenant, Priority: g.Priority, Queued: g.Queued + g.Dispatched, AtLeast: g.AtLeast,
			Since: sinceOf(now.At, g), Reason: g.WaitsFor, Message: g.Message, Class: classOfWait(g.WaitsFor)})
	}
	rank := func(r waitRow) int { return slices.Index([]string{"bad", "stop", "wait"}, r.Class) }
	slices.SortStableFunc(rows, func(a, b waitRow) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Since.Compare(b.Since))
	})
	return rows
}

// classOfWait returns the colour class of a reason. Jobs with a class of "bad" wait until a person changes the fleet.
func classOfWait(w job.Wait) string {
	switch w {
	case job.WaitsNeeds, job.WaitsPool, job.WaitsImage, job.WaitsWorker:
		return "bad"
	case job.WaitsPaused, job.WaitsQuota:
		return "stop"
	}
	return "wait"
}

// classParts returns the pool of a class of jobs, any if it names none, and its further requirements in words.
func classParts(class string) (pool, needs string) {
	name, query, _ := strings.Cut(class, "?")
	pool, err := url.QueryUnescape(name)
	q, qerr := url.ParseQuery(query)
	if err != nil || qerr != nil {
		return class, ""
	}
	var parts []string
	for key := range q {
		parts = append(parts, strings.TrimPrefix(key, "label.")+" "+q.Get(key))
	}
	slices.Sort(parts)
	return cmp.Or(pool, "any"), strings.Join(parts, ", ")
}

// alertsOf lists the conditions of workers and queues that need a person, the gravest first.
func alertsOf(now api.Fleet, waits []waitRow) (all []alert) {
	workers := 0
	for _, p := range now.Pools {
		workers += p.Workers
	}
	if workers == 0 {
		all = append(all, alert{"bad", "No worker is connected.", "/ui/workers"})
	}
	var stuck, jobs int64
	var since time.Time
	for _, w := range waits {
		if w.Class == "bad" {
			stuck, jobs, since = stuck+1, jobs+w.Queued, earlier(since, w.Since)
		}
	}
	if stuck > 0 && workers > 0 {
		all = append(all, alert{"bad", fmt.Sprintf("Jobs that no worker can take: %s; the first was submitted %s.", display.Count(jobs), display.Ago(since, now.At)), "#waiting"})
	}
	for _, w := range now.Workers {
		if class, text := troubleOf(w); text != "" {
			all = append(all, alert{class, "Worker " + display.Line(w.ID, 80) + " " + text, "/ui/workers#w-" + w.ID})
		}
	}
	slices.SortStableFunc(all, func(a, b alert) int { return cmp.Compare(a.Class, b.Class) }) // bad, then stop
	return all
}

// troubleOf returns why a worker needs attention, or an empty text.
func troubleOf(w store.Worker) (class, text string) {
	switch {
	case w.Quarantine != nil:
		return "bad", "is in quarantine: " + display.Line(w.Quarantine.Reason, 200)
	case w.Rival != nil:
		return "bad", "has a rival: another process uses its name."
	case w.Cordon != nil && !w.Cordon.Pool:
		return "stop", "is cordoned by " + display.Line(w.Cordon.By, 80) + "."
	case w.Draining:
		return "stop", "is draining."
	case w.Held != "":
		return "stop", "takes no jobs: " + display.Line(w.Held, 200)
	}
	return "", ""
}

func pausedText(p store.Pause) string {
	text := fmt.Sprintf("The %s %s is paused by %s", p.Kind, display.Line(p.Name, 80), display.Line(p.By, 80))
	if p.Reason != "" {
		return text + ": " + display.Line(p.Reason, 200)
	}
	return text + "."
}

// usesOf sums the queue by tenant, the largest users first.
func usesOf(now api.Fleet) []useRow {
	by := map[string]*useRow{}
	var most int64
	for _, g := range now.Queue {
		u := by[g.Tenant]
		if u == nil {
			u = &useRow{Tenant: g.Tenant}
			by[g.Tenant] = u
		}
		u.Running, u.Waiting, u.AtLeast = u.Running+g.Running, u.Waiting+g.Queued+g.Dispatched, u.AtLeast || g.AtLeast
		u.Since = earlier(u.Since, sinceOf(now.At, g))
		most += g.Running
	}
	var rows []useRow
	for _, u := range by {
		if most > 0 {
			u.Parts = display.Bar([]display.Part{{Class: "run", Label: "running jobs of the tenant", N: u.Running}, {Class: "wait", Label: "running jobs of other tenants", N: most - u.Running}})
		}
		rows = append(rows, *u)
	}
	slices.SortFunc(rows, func(a, b useRow) int {
		return cmp.Or(cmp.Compare(b.Running, a.Running), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Tenant, b.Tenant))
	})
	return rows
}

// rowsOf lists the workers: those that take no jobs first, then the busiest.
func rowsOf(now api.Fleet) (rows []workerRow) {
	for _, w := range now.Workers {
		rows = append(rows, workerRowOf(w, now.At))
	}
	rank := func(r workerRow) int { return -slices.Index([]string{"good", "run", "stop", "bad"}, r.Class) }
	slices.SortFunc(rows, func(a, b workerRow) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.share(), a.share()), cmp.Compare(a.ID, b.ID))
	})
	return rows
}

// share returns the used share of a worker's cores.
func (r workerRow) share() float64 { return r.CoresUsed / max(r.Worker.Cores, 1) }
