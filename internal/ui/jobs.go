package ui

import (
	"net/url"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// jobsPage is a page of jobs that filters have chosen.
type jobsPage struct {
	At       string // where the filters are sent to
	Jobs     []job.Summary
	Next     string
	More     bool
	Filter   url.Values
	Outcomes []job.Outcome
	Failures []job.Outcome
	States   []job.State
	OfBatch  bool
	Wrong    string // with the filters
}

// Chosen reports whether a filter has a value.
func (p jobsPage) Chosen(name string, value any) bool { return p.Filter.Get(name) == word(value) }

// Given is the value of a filter.
func (p jobsPage) Given(name string) string { return p.Filter.Get(name) }

// jobFilters are the parameters of the page that are the API's.
var jobFilters = []string{"state", "outcome", "failed", "failure", "batch", "label", "since", "until", "name_prefix", "image", "worker", "message", "min_duration", "max_duration"}

// filterOf reads the filters that are set: forms send empty ones, too.
func filterOf(q url.Values) url.Values {
	out := url.Values{}
	for _, name := range jobFilters {
		for _, value := range q[name] {
			if value = strings.TrimSpace(value); value != "" {
				out.Add(name, value)
			}
		}
	}
	return out
}

// jobsOf asks the API, at a path of its, for the jobs that the filters in the address choose. What is wrong with a filter is
// said beside it.
func (v *visit) jobsOf(path, at string) (jobsPage, error) {
	p := jobsPage{At: at, Filter: filterOf(v.r.URL.Query()), Outcomes: job.Outcomes, Failures: job.Failures(), States: job.States, OfBatch: path != "/v1/jobs"}
	if p.OfBatch {
		p.Filter.Del("batch")
	}
	q := url.Values{"limit": {pageOfJobs}}
	for name, values := range p.Filter {
		q[name] = values
	}
	if before := v.r.URL.Query().Get("before"); before != "" {
		q.Set("before", before)
		p.More = true
	}
	var list api.JobList
	if err := v.get(path, q, &list); err != nil {
		problem := api.NewProblem(err)
		if len(problem.Errors) == 0 {
			return p, err
		}
		p.Wrong = problem.Detail
		return p, nil
	}
	p.Jobs = list.Jobs
	if list.Next != "" {
		next := filterOf(p.Filter)
		next.Set("before", string(list.Next))
		p.Next = at + "?" + next.Encode() + "#jobs"
	}
	return p, nil
}

func (s *Server) jobs(v *visit) error {
	p, err := v.jobsOf("/v1/jobs", "/ui/jobs")
	if err != nil {
		return err
	}
	return v.show("jobs", "Jobs", !p.More && p.Wrong == "", p)
}
