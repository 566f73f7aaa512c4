package ui

import (
	"net/url"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

type jobsPage struct {
	Jobs     []job.Summary
	Next     string
	More     bool
	Filter   url.Values
	Outcomes []job.Outcome
	States   []job.State
}

// Chosen reports whether a filter has a value.
func (p jobsPage) Chosen(name string, value any) bool { return p.Filter.Get(name) == word(value) }

// Given is the value of a filter.
func (p jobsPage) Given(name string) string { return p.Filter.Get(name) }

// jobFilters are the parameters of the page that are the API's.
var jobFilters = []string{"state", "outcome", "batch", "label", "since"}

// filterOf reads the filters that are set: forms send empty ones, too.
func filterOf(q url.Values) url.Values {
	out := url.Values{}
	for _, name := range jobFilters {
		for _, value := range q[name] {
			if value != "" {
				out.Add(name, value)
			}
		}
	}
	return out
}

func (s *Server) jobs(v *visit) error {
	p := jobsPage{Filter: filterOf(v.r.URL.Query()), Outcomes: job.Outcomes, States: job.States}
	q := url.Values{"limit": {pageOfJobs}}
	for name, values := range p.Filter {
		q[name] = values
	}
	if before := v.r.URL.Query().Get("before"); before != "" {
		q.Set("before", before)
		p.More = true
	}
	var list api.JobList
	if err := v.get("/v1/jobs", q, &list); err != nil {
		return err
	}
	p.Jobs = list.Jobs
	if list.Next != "" {
		next := filterOf(p.Filter)
		next.Set("before", string(list.Next))
		p.Next = "/ui/jobs?" + next.Encode()
	}
	return v.show("jobs", "Jobs", !p.More, p)
}
