package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// repeats answers jobs that allow it from the result cache, between their dispatch and their publishing. This is as
// late as possible, so that a batch of equal jobs finds the first result, and costs other jobs nothing. After an
// error the jobs run.
type repeats struct {
	store    repeatStore
	events   *events
	metrics  *metrics
	log      *slog.Logger
	answered func()                            // called when windows have room again
	images   func() (map[string]string, error) // digests by image name; "" where workers disagree
}

// repeatStore is the part of the store that repeats use.
type repeatStore interface {
	Repeats(ctx context.Context, refs []store.Ref) ([]store.Repeat, error)
	Answer(ctx context.Context, rs []store.Repeat) ([]store.Ref, error)
}

// repeatChunk bounds the records that are read at once.
const repeatChunk = 100

// filter answers jobs from the cache and returns the rest, to be published.
func (r *repeats) filter(ctx context.Context, ds []store.Dispatch) []store.Dispatch {
	var asked []store.Ref
	for _, d := range ds {
		if d.Cacheable {
			asked = append(asked, d.Ref)
		}
	}
	if len(asked) == 0 {
		return ds
	}
	over := map[store.Ref]bool{}
	for chunk := range slices.Chunk(asked, repeatChunk) {
		if err := r.answer(ctx, chunk, over); err != nil {
			r.log.WarnContext(ctx, "cache not read; its jobs run", "error", err)
			break
		}
	}
	if len(over) == 0 {
		return ds
	}
	r.answered()
	return slices.DeleteFunc(slices.Clone(ds), func(d store.Dispatch) bool { return over[d.Ref] })
}

// answer adds the jobs that it answered to over.
func (r *repeats) answer(ctx context.Context, refs []store.Ref, over map[store.Ref]bool) error {
	found, err := r.store.Repeats(ctx, refs)
	if err != nil || len(found) == 0 {
		return err
	}
	images, err := r.images()
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(p store.Repeat) bool { return !fits(p, images) })
	done, err := r.store.Answer(ctx, found)
	if err != nil {
		return err
	}
	ids := make([]job.ID, 0, 2*len(done))
	for _, d := range done {
		over[d] = true
		ids = append(ids, d.Job)
	}
	for _, p := range found {
		if over[p.Ref] && p.BatchID != "" && !slices.Contains(ids, p.BatchID) {
			ids = append(ids, p.BatchID)
		}
	}
	r.events.publish(ctx, ids)
	r.metrics.cached.Add(ctx, int64(len(done)))
	return nil
}

// deterministic lists the outcomes that depend only on the program. Limits of time, memory and processes are reached
// sooner on a busy host.
var deterministic = []job.Outcome{job.Succeeded, job.Failed, job.Exception}

// fits reports whether a record can answer another job. Its image must be the current one of that name, its outcomes
// must be deterministic, and the job must not retry them.
func fits(p store.Repeat, images map[string]string) bool {
	var spec struct {
		Image string    `json:"image"`
		Retry job.Retry `json:"retry"`
	}
	var r job.Result
	if json.Unmarshal(p.Spec, &spec) != nil || json.Unmarshal(p.Record, &r) != nil {
		return false
	}
	if spec.Image == "" {
		spec.Image = job.DefaultImage
	}
	if r.ImageDigest == "" || r.ImageDigest != images[spec.Image] || len(r.Artifacts) > 0 || r.Cached {
		return false
	}
	if r.Stdout.Stored != nil || r.Stderr.Stored != nil {
		return false // stored outputs belong to their own record, as artifacts do
	}
	if !slices.Contains(deterministic, r.Outcome) || spec.Retry.MaxAttempts > 1 && slices.Contains(spec.Retry.On, r.Outcome) {
		return false
	}
	for _, s := range r.Steps {
		if !slices.Contains(deterministic, s.Outcome) || s.Stdout.Stored != nil || s.Stderr.Stored != nil {
			return false
		}
	}
	if r.Tests != nil {
		for _, c := range r.Tests.Cases {
			if !slices.Contains(deterministic, c.Outcome) {
				return false
			}
		}
	}
	return true
}
