package store

import (
	"context"
	"encoding/json"

	"github.com/assay-run/assay/pkg/job"
)

// ResultCache answers jobs with the records of equal ones, found by NewJob.CacheKey.
// It keeps nothing of its own: what retention drops, it forgets.
type ResultCache interface {
	// Repeats returns those of the dispatched jobs that have a cache key under
	// which a job of the same tenant has succeeded, failed or ended with an
	// exception: each with the newest such record. Whether it will do is for the
	// caller to judge.
	Repeats(ctx context.Context, refs []Ref) ([]Repeat, error)
	// Answer records for dispatched jobs of exactly these generations what the
	// record of their Origin says, marked as cached, and returns those that it
	// ended. What a worker has claimed meanwhile runs.
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
