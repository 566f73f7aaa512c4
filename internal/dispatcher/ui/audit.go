package ui

import (
	"maps"
	"net/url"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/store"
)

// auditFilters are the page's parameters that are passed on to the API.
var auditFilters = []string{"actor", "action", "subject", "tenant", "since", "until"}

// actionRow is an action with its changes by line.
type actionRow struct {
	Did     store.Action
	Changes []display.Change
}

type auditPage struct {
	Actions      []actionRow
	Filter       url.Values
	Newest, Next string
	Wrong        string
}

// Given returns the value of a filter.
func (p auditPage) Given(name string) string { return p.Filter.Get(name) }

func (s *Server) audit(v *visit) error {
	given := v.r.URL.Query()
	p := auditPage{Filter: url.Values{}}
	for _, name := range auditFilters {
		if value := strings.TrimSpace(given.Get(name)); value != "" {
			p.Filter.Set(name, value)
		}
	}
	q := maps.Clone(p.Filter)
	q.Set("limit", pageOfJobs)
	before := given.Get("before")
	if before != "" {
		q.Set("before", before)
		p.Newest = "/ui/audit?" + p.Filter.Encode()
	}
	var list api.ActionList
	if err := v.get("/v1/admin/actions", q, &list); err != nil {
		problem := api.NewProblem(err)
		if len(problem.Errors) == 0 {
			return err
		}
		p.Wrong = problem.Detail
		return v.show("audit", "Audit", false, p)
	}
	for _, a := range list.Actions {
		p.Actions = append(p.Actions, actionRow{a, display.Changes(a.Before, a.After)})
	}
	if list.Next != "" {
		next := maps.Clone(p.Filter)
		next.Set("before", string(list.Next))
		p.Next = "/ui/audit?" + next.Encode()
	}
	return v.show("audit", "Audit", before == "", p)
}
