package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Browser is what people look at: lists with filters, and batches as a whole. A tenant sees its own rows only; the empty
// tenant sees all. Whatever is asked for, an answer costs no more than so much: where it would, it says how far it got.
type Browser interface {
	// BrowseJobs lists jobs, those submitted last first. A page may have fewer jobs than its limit, or none, and have one
	// behind it all the same: to have them all, go on until Next is empty. What is submitted or changes meanwhile neither
	// hides a job nor shows one twice. It is bounded in bytes as that of Reader.Results is. Jobs of open batches are none
	// yet. job.ErrNotFound if the filter names a batch that there is not.
	BrowseJobs(ctx context.Context, tenant string, q JobQuery) (JobPage, error)
	// BrowseBatches lists sealed batches, those sealed last first, as Reader.Batches does. Short pages are possible here,
	// too. job.ErrNotFound if there is no batch Before.
	BrowseBatches(ctx context.Context, tenant string, q BatchQuery) (BatchPage, error)
	// BatchSummary says how a batch is doing, from all of its records or, if there are very many, an even sample of them.
	BatchSummary(ctx context.Context, tenant string, batch job.ID) (*BatchSummary, error)
	// BatchMap returns up to n jobs of a batch, at most MaxMap, with ids greater than after: all of them from there on, in
	// the order of their ids. It too may end early, and has a Next then.
	BatchMap(ctx context.Context, tenant string, batch, after job.ID, n int) (*BatchMap, error)
	// CompareBatches pairs the jobs of two batches, the first MaxCompare of each, and returns up to n of the pairs that flipped,
	// from the one with the number from on.
	CompareBatches(ctx context.Context, tenant string, a, b job.ID, from, n int) (*Comparison, error)
	// ResultsOf is Reader's Results for those with one outcome. It looks at a bounded number of records: there may be none on
	// a page, and more behind it.
	ResultsOf(ctx context.Context, tenant string, batch job.ID, o job.Outcome, after Cursor, limit int) (page []json.RawMessage, next Cursor, more bool, err error)
	// BatchStates says how far batches are, at most MaxStates, in the order in which they are named. What the tenant has no
	// sealed batch of that id of is left out.
	BatchStates(ctx context.Context, tenant string, batches []job.ID) ([]BatchState, error)
}

// What one answer of a Browser has at most.
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
