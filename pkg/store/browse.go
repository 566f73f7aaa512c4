package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Browser serves people: lists with filters, and whole batches. A tenant sees its own rows only; the empty tenant sees
// all. The cost of each answer is bounded; an answer that reaches the bound reports its position.
type Browser interface {
	// BrowseJobs lists jobs, the last submitted first. A page may have fewer jobs than its limit, or none, before the
	// end: continue until Next is empty. Jobs that are submitted or change meanwhile neither hide a job nor repeat one.
	// Its size is bounded as in Reader.Results. It omits jobs of open batches. It returns job.ErrNotFound if the filter
	// names an unknown batch.
	BrowseJobs(ctx context.Context, tenant string, q JobQuery) (JobPage, error)
	// BrowseBatches lists sealed batches, those sealed last first, as Reader.Batches does. Short pages are possible here,
	// too. job.ErrNotFound if there is no batch Before.
	BrowseBatches(ctx context.Context, tenant string, q BatchQuery) (BatchPage, error)
	// BatchSummary summarizes all records of a batch or, if there are very many, an even sample.
	BatchSummary(ctx context.Context, tenant string, batch job.ID) (*BatchSummary, error)
	// BatchMap returns up to n jobs of a batch, at most MaxMap, with ids greater than after: all of them from there on, in
	// the order of their ids. It too may end early, and has a Next then.
	BatchMap(ctx context.Context, tenant string, batch, after job.ID, n int) (*BatchMap, error)
	// CompareBatches pairs the jobs of two batches, the first MaxCompare of each, and returns up to n of the pairs that flipped,
	// from the one with the number from on.
	CompareBatches(ctx context.Context, tenant string, a, b job.ID, from, n int) (*Comparison, error)
	// ResultsOf is Reader.Results for one outcome. It reads a bounded number of records, so a page may be empty before
	// the end.
	ResultsOf(ctx context.Context, tenant string, batch job.ID, o job.Outcome, after Cursor, limit int) (page []json.RawMessage, next Cursor, more bool, err error)
	// BatchStates returns the states of at most MaxStates batches, in the given order. It omits ids that are not sealed
	// batches of the tenant.
	BatchStates(ctx context.Context, tenant string, batches []job.ID) ([]BatchState, error)
}

// The most of one answer of a Browser.
const (
	MaxMap     = 100_000 // jobs of a BatchMap
	MaxCompare = 100_000 // jobs of each batch of a Comparison
	MaxStates  = 1000    // batches of BatchStates
)

// JobQuery asks for a page of jobs.
type JobQuery struct {
	JobFilter
	Before job.ID // submitted before this one; empty: from the last
	Limit  int    // at least 1
}

// JobPage is a page of jobs.
type JobPage struct {
	Jobs []job.Summary
	Next job.ID // to be Before for the next page; empty: there is none
}

// BatchQuery asks for a page of batches: those to which all of it applies.
type BatchQuery struct {
	NamePrefix string
	Labels     map[string]string
	Since      time.Time // sealed at or after; zero: ever
	Open       *bool     // whether it has jobs that are not over; nil: either
	Before     job.ID    // sealed before this one; empty: from the last
	Limit      int       // at least 1
}

// BatchPage is a page of batches.
type BatchPage struct {
	Batches []job.Batch
	Next    job.ID // to be Before for the next page; empty: there is none
}

// Cell is a job on the map of its batch.
type Cell struct {
	ID         job.ID
	State      job.State
	Outcome    job.Outcome // empty: it is not over
	DurationMS int64       // from its start to its end, or to now; 0: it did not start
}

// BatchMap is a part of a batch's jobs in the order of their ids, in which they were submitted.
type BatchMap struct {
	Cells []Cell
	Next  job.ID // behind which the next part begins; empty: there is none
}
