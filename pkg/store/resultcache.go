package store

import (
	"context"
	"encoding/json"

	"github.com/assay-run/assay/pkg/job"
)

// ResultCache answers jobs with the records of equal jobs, found by NewJob.CacheKey. It has no data of its own: when
// retention drops a record, it is no longer an answer.
type ResultCache interface {
	// Repeats returns the dispatched jobs with a cache key under which a job of the same tenant has succeeded, failed
	// or ended with an exception, each with the newest such record. The caller decides whether the record is
	// acceptable.
	Repeats(ctx context.Context, refs []Ref) ([]Repeat, error)
	// Answer records the result of Origin for dispatched jobs of exactly these generations, marked as cached, and
	// returns the jobs that it ended. Jobs that a worker claimed meanwhile run.
	Answer(ctx context.Context, rs []Repeat) ([]Ref, error)
}

// Repeat is a job that has run before under another id.
type Repeat struct {
	Ref
	BatchID job.ID
	Spec    json.RawMessage // of the job to answer
	Origin  job.ID
	Record  json.RawMessage // of the origin; Answer does not look at it
}
