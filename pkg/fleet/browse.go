package fleet

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// BatchSummary summarizes a batch: its progress, its rate, the outcomes of its jobs, and the
// reasons of failures.
type BatchSummary struct {
	Batch job.Batch `json:"batch"`

	// Rate is how many jobs were recorded a second in the last minute. ETA is how long the
	// remaining jobs take at that rate; 0: not known.
	Rate float64      `json:"rate"`
	ETA  job.Duration `json:"eta,omitempty"`

	// Sampled is how many recorded jobs the fields below are computed from, evenly spread. It is
	// all of them, unless there are very many.
	Sampled   int64 `json:"sampled"`
	SampledOf int64 `json:"sampled_of"`

	Reasons map[job.Reason]int64 `json:"reasons"` // of jobs that ended by a fault of the infrastructure
	// Failures counts the failed jobs by failure class: the outcome or, if tests failed, the outcome of the first failed case.
	Failures  map[job.Outcome]int64 `json:"failures,omitempty"`
	Durations []DurationBucket      `json:"durations"` // shortest first
	Clusters  []FailureCluster      `json:"clusters"`  // largest first
}

// DurationBucket counts jobs that took at most UpToMS, and longer than the previous bucket. Jobs
// that did not run are in no bucket.
type DurationBucket struct {
	UpToMS float64 `json:"up_to_ms"`
	Jobs   int64   `json:"jobs"`
}

// FailureCluster is a group of jobs that seem to have failed in the same way.
type FailureCluster struct {
	Outcome   job.Outcome `json:"outcome"`
	Failure   job.Outcome `json:"failure,omitempty"`   // their failure class
	Exception string      `json:"exception,omitempty"` // its type
	Message   string      `json:"message,omitempty"`   // the first line of a message, without the parts that differ between jobs
	Jobs      int64       `json:"jobs"`
	Example   job.ID      `json:"example"` // a job of the cluster
}

// Comparison has the differences between two batches of the same jobs, by the outcomes of each pair
// of jobs.
type Comparison struct {
	A job.ID `json:"a"`
	B job.ID `json:"b"`
	// By is the pairing of the jobs: "name", or "position" if names are missing or occur twice.
	By string `json:"by"`
	// Compared is how many jobs of each batch were compared, from the first on, up to a limit. Cut:
	// a batch has more.
	Compared int64 `json:"compared"`
	Cut      bool  `json:"cut,omitempty"`

	Same      int64  `json:"same"`  // pairs with the same outcome
	Other     int64  `json:"other"` // pairs with different outcomes and no flip: both failed
	Fixed     int64  `json:"fixed"` // failed in A, succeeded in B
	Broken    int64  `json:"broken"`
	Unended   int64  `json:"unended"` // pairs with a job that is not over, or whose outcome is not the program's
	OnlyA     int64  `json:"only_a"`
	OnlyB     int64  `json:"only_b"`
	Flips     []Flip `json:"flips"`          // a page of them: broken ones first
	FlipsNext int    `json:"next,omitempty"` // start of the next page; 0: this is the last
}

// Flip is a pair of jobs with one success and one failure.
type Flip struct {
	Name     string            `json:"name,omitempty"`
	Position int               `json:"position"`         // of the job in A, from 0
	Labels   map[string]string `json:"labels,omitempty"` // of the job in B
	A        job.ID            `json:"a"`
	B        job.ID            `json:"b"`
	OutcomeA job.Outcome       `json:"outcome_a"`
	OutcomeB job.Outcome       `json:"outcome_b"`
}

// BatchState is the progress of a batch in a few bytes, for clients that poll many batches.
type BatchState struct {
	ID        job.ID    `json:"id"`
	Total     int64     `json:"total"`
	Recorded  int64     `json:"recorded"` // jobs that are over
	Succeeded int64     `json:"succeeded"`
	Canceled  int64     `json:"canceled,omitempty"`
	Done      bool      `json:"done"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}
