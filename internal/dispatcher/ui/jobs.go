package ui

import (
	"net/url"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// jobsPage is a page of filtered jobs.
type jobsPage struct {
	At       string // target of the filter form
	Jobs     []job.Summary
	Next     string
	More     bool
	Filter   url.Values
	Outcomes []job.Outcome
	Failures []job.Outcome
	States   []job.State
	OfBatch  bool
	Wrong    string // error in the filters
	Owners   owners
}

// Chosen reports whether a filter has a value.
func (p jobsPage) Chosen(name string, value any) bool { return p.Filter.Get(name) == word(value) }

// Given returns the value of a filter.
func (p jobsPage) Given(name string) string { return p.Filter.Get(name) }

// jobFilters are the page's parameters that are passed on to the API.
var jobFilters = []string{"state", "outcome", "failed", "failure", "batch", "label", "since", "until", "name_prefix", "image", "worker", "message", "min_duration", "max_duration"}

// filterOf returns the filters with a value. Forms also send empty ones.
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

// jobsOf lists the jobs that the filters in the address select, from an API path. Errors in filters are shown next to
// them.
func (v *visit) jobsOf(path, at string) (jobsPage, error) {
	p := jobsPage{At: at, Filter: filterOf(v.r.URL.Query()), Outcomes: job.Outcomes, Failures: job.Failures(), States: job.States, OfBatch: path != "/v1/jobs"}
	if p.OfBatch {
		p.Filter.Del("batch")
	}
	q := url.Values{"limit": {pageOfJobs}}
	for name, values := range p.Filter {
		q[name] = values
	}
	if !p.OfBatch {
		p.Owners = v.ownersOf(q)
	}
	sinceNow(q, v.s.Now())
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
		p.Owners.keep(next)
		p.Next = at + "?" + next.Encode() + "#jobs"
	}
	return p, nil
}

// sinceNow replaces durations before now, such as 2h, by times.
func sinceNow(q url.Values, now time.Time) {
	for _, name := range []string{"since", "until"} {
		if d, err := job.ParseDuration(q.Get(name)); err == nil && d > 0 {
			q.Set(name, now.Add(-d).UTC().Format(time.RFC3339))
		}
	}
}

func (s *Server) jobs(v *visit) error {
	p, err := v.jobsOf("/v1/jobs", "/ui/jobs")
	if err != nil {
		return err
	}
	return v.show("jobs", "Jobs", !p.More && p.Wrong == "", p)
}
