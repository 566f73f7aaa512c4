package fleet

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// BatchSummary is what people ask first about a batch: how far it is, how fast, how its jobs ended and what is wrong with
// those that failed.
type BatchSummary struct {
	Batch job.Batch `json:"batch"`

	// Rate is how many jobs were recorded a second in the last minute, and ETA how long the rest takes at that rate; 0: not known.
	Rate float64      `json:"rate"`
	ETA  job.Duration `json:"eta,omitempty"`

	// Sampled is how many of the recorded jobs, evenly spread over them, the rest is from: all of them, unless there are very many.
	Sampled   int64 `json:"sampled"`
	SampledOf int64 `json:"sampled_of"`

	Reasons map[job.Reason]int64 `json:"reasons"` // of jobs whose end infrastructure is to blame for
	// Failures counts the failed jobs by failure class: the outcome or, if tests failed, the outcome of the first failed case.
	Failures  map[job.Outcome]int64 `json:"failures,omitempty"`
	Durations []DurationBucket      `json:"durations"` // from the shortest on
	Clusters  []FailureCluster      `json:"clusters"`  // the largest first
}

// DurationBucket is how many jobs took so long: up to UpTo, and longer than the bucket before. What did not run is in none.
type DurationBucket struct {
	UpToMS float64 `json:"up_to_ms"`
	Jobs   int64   `json:"jobs"`
}

// FailureCluster is jobs that seem to have failed in the same way.
type FailureCluster struct {
	Outcome   job.Outcome `json:"outcome"`
	Failure   job.Outcome `json:"failure,omitempty"`   // their failure class
	Exception string      `json:"exception,omitempty"` // its type
	Message   string      `json:"message,omitempty"`   // the first line of one of them, with what differs between them left out
	Jobs      int64       `json:"jobs"`
	Example   job.ID      `json:"example"` // one of them
}

// Comparison says what differs between two batches of the same jobs: how each of them ended in the one and in the other.
type Comparison struct {
	A job.ID `json:"a"`
	B job.ID `json:"b"`
	// By is what pairs their jobs: "name", or "position" where names are missing or occur twice.
	By string `json:"by"`
	// Compared is how many jobs of each were looked at: at most so many from the first on. Cut: one of them has more.
	Compared int64 `json:"compared"`
	Cut      bool  `json:"cut,omitempty"`

	Same      int64  `json:"same"`  // pairs with the same outcome
	Other     int64  `json:"other"` // pairs with another outcome, and no flip: they failed in two ways
	Fixed     int64  `json:"fixed"` // failed in A, succeeded in B
	Broken    int64  `json:"broken"`
	Unended   int64  `json:"unended"` // pairs of which one is not over, or says nothing about the program
	OnlyA     int64  `json:"only_a"`
	OnlyB     int64  `json:"only_b"`
	Flips     []Flip `json:"flips"`          // a page of them: broken ones first
	FlipsNext int    `json:"next,omitempty"` // from which the next page begins; 0: there is none
}

// Flip is a pair of jobs of which one succeeded and the other did not.
type Flip struct {
	Name     string      `json:"name,omitempty"`
	A        job.ID      `json:"a"`
	B        job.ID      `json:"b"`
	OutcomeA job.Outcome `json:"outcome_a"`
	OutcomeB job.Outcome `json:"outcome_b"`
}

// BatchState is how far a batch is, in a few bytes: for those who ask about many, again and again.
type BatchState struct {
	ID        job.ID    `json:"id"`
	Total     int64     `json:"total"`
	Recorded  int64     `json:"recorded"` // that are over
	Succeeded int64     `json:"succeeded"`
	Canceled  int64     `json:"canceled,omitempty"`
	Done      bool      `json:"done"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}
