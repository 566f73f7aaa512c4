package ui

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/identity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// workerRow is a worker as the page shows it.
type workerRow struct {
	store.Worker
	Images     []string
	MoreImages int
	Isolations []string
	Cores      int
	Memory     job.Size
	Missing    []string
	Status     string // in a word, and Class its colour
	Class      string
	Outcomes   int64 // attempts that ended
	Back       int64 // attempts that were handed back
	Age        time.Duration
}

// host is what a worker says of its machine, as far as the page shows it.
type host struct {
	Isolations []string `json:"isolations"`
	Cores      int      `json:"cores"`
	Memory     job.Size `json:"memory"`
	Missing    []string `json:"missing"`
	Images     []struct {
		Name string `json:"name"`
	} `json:"images"`
	ImagesMore int `json:"images_more"`
}

const imagesShown = 20

func workerRowOf(w store.Worker, now time.Time) workerRow {
	r := workerRow{Worker: w, Age: max(now.Sub(w.SeenAt), 0)}
	var h host
	_ = json.Unmarshal(w.Host, &h) // one that says nothing of its machine has no more to show
	r.Isolations, r.Cores, r.Memory, r.Missing, r.MoreImages = h.Isolations, h.Cores, h.Memory, h.Missing, h.ImagesMore
	for i, image := range h.Images {
		if i == imagesShown {
			r.MoreImages += len(h.Images) - i
			break
		}
		r.Images = append(r.Images, image.Name)
	}
	if w.Tally != nil {
		for _, n := range w.Tally.Outcomes {
			r.Outcomes += n
		}
		for _, n := range w.Tally.Back {
			r.Back += n
		}
	}
	switch {
	case w.Quarantine != nil:
		r.Status, r.Class = "in quarantine", "bad"
	case w.Cordon != nil:
		r.Status, r.Class = "cordoned", "stop"
	case w.Draining:
		r.Status, r.Class = "draining", "stop"
	case w.Held != "":
		r.Status, r.Class = "under pressure", "stop"
	case w.Busy >= w.Slots:
		r.Status, r.Class = "full", "run"
	default:
		r.Status, r.Class = "ready", "good"
	}
	return r
}

type workersPage struct {
	Workers []workerRow
	More    int // that are not shown
	Pools   []api.PoolSummary
	Queue   []store.QueueGroup
	Pauses  []store.Pause
}

const workersShown = 200

func (s *Server) workers(v *visit) error {
	var now api.Fleet
	if err := v.get("/v1/fleet", nil, &now); err != nil {
		return err
	}
	p := workersPage{Pools: now.Pools, Queue: now.Queue}
	slices.SortFunc(now.Workers, func(a, b store.Worker) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.ID, b.ID)) })
	for i, w := range now.Workers {
		if i == workersShown {
			p.More = len(now.Workers) - i
			break
		}
		p.Workers = append(p.Workers, workerRowOf(w, now.At))
	}
	if v.who.Role >= identity.Operator {
		var list api.PauseList
		if err := v.get("/v1/admin/pauses", nil, &list); err != nil {
			return err
		}
		p.Pauses = list.Pauses
	}
	return v.show("workers", "Workers", true, p)
}

// tenantRow is what a tenant has in the fleet now.
type tenantRow struct {
	Name                        string
	Queued, Dispatched, Running int64
	AtLeast                     bool
	Limits                      *store.Tenant // nil: not for this visitor
	Paused                      bool
}

type tenantsPage struct {
	Tenants []tenantRow
	More    int
	Find    string
}

const tenantsShown = 50

func (s *Server) tenants(v *visit) error {
	var now api.Fleet
	if err := v.get("/v1/fleet", nil, &now); err != nil {
		return err
	}
	rows := map[string]*tenantRow{v.who.Tenant: {Name: v.who.Tenant}}
	p := tenantsPage{Find: v.r.URL.Query().Get("tenant")}
	if p.Find != "" && v.who.Role >= identity.Operator {
		rows[p.Find] = &tenantRow{Name: p.Find}
	}
	for _, g := range now.Queue {
		if rows[g.Tenant] == nil {
			rows[g.Tenant] = &tenantRow{Name: g.Tenant}
		}
		r := rows[g.Tenant]
		r.Queued, r.Dispatched, r.Running, r.AtLeast = r.Queued+g.Queued, r.Dispatched+g.Dispatched, r.Running+g.Running, r.AtLeast || g.AtLeast
	}
	for i, name := range slices.Sorted(maps.Keys(rows)) {
		if p.Find != "" && name != p.Find {
			continue
		}
		if i >= tenantsShown && p.Find == "" {
			p.More++
			continue
		}
		p.Tenants = append(p.Tenants, *rows[name])
	}
	if err := v.limits(p.Tenants); err != nil {
		return err
	}
	return v.show("tenants", "Tenants", p.Find == "", p)
}

// limits adds what counts for tenants, for those who may see it.
func (v *visit) limits(rows []tenantRow) error {
	if v.who.Role < identity.Operator {
		return nil
	}
	var list api.PauseList
	if err := v.get("/v1/admin/pauses", nil, &list); err != nil {
		return err
	}
	for i := range rows {
		rows[i].Limits = &store.Tenant{}
		if err := v.get("/v1/admin/tenants/"+url.PathEscape(rows[i].Name), nil, rows[i].Limits); err != nil {
			return err
		}
		rows[i].Paused = slices.ContainsFunc(list.Pauses, func(p store.Pause) bool { return p.Kind == "tenant" && p.Name == rows[i].Name })
	}
	return nil
}

type auditPage struct {
	Actions []store.Action
	Subject string
	Next    string
	More    bool
}

func (s *Server) audit(v *visit) error {
	given := v.r.URL.Query()
	q := url.Values{"limit": {pageOfJobs}}
	p := auditPage{Subject: given.Get("subject"), More: given.Get("before") != ""}
	for _, name := range []string{"subject", "before"} {
		if value := given.Get(name); value != "" {
			q.Set(name, value)
		}
	}
	var list api.ActionList
	if err := v.get("/v1/admin/actions", q, &list); err != nil {
		return err
	}
	p.Actions = list.Actions
	if list.Next != "" {
		q.Set("before", string(list.Next))
		q.Del("limit")
		p.Next = "/ui/audit?" + q.Encode()
	}
	return v.show("audit", "Audit", !p.More, p)
}
