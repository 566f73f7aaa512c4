package dispatcher

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// repeats answers jobs that ask for it with the records of equal ones, between
// their dispatch and their publishing: as late as possible, so that a batch of
// equal jobs finds the first of them, and at no price for jobs that do not ask. What
// goes wrong here costs a run of the job, and nothing else.
type repeats struct {
	store    repeatStore
	events   *events
	metrics  *metrics
	log      *slog.Logger
	answered func()                            // windows have room again
	images   func() (map[string]string, error) // name → digest, where all workers agree
}

// repeatStore is what repeats need of the store.
type repeatStore interface {
	Repeats(ctx context.Context, refs []store.Ref) ([]store.Repeat, error)
	Answer(ctx context.Context, rs []store.Repeat) ([]store.Ref, error)
}

// repeatChunk is how many records are read at once: they are whole.
const repeatChunk = 100

// filter answers what it can and returns the rest, to be published.
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

// answer notes in over which of the jobs it ended.
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

// deterministic are the outcomes that a program brings about by itself. Time,
// memory and processes run out sooner on a busy host.
var deterministic = []job.Outcome{job.Succeeded, job.Failed, job.Exception}

// fits judges whether a record can be that of another job: it was made with what
// the name of the image means now, nothing in it depends on the host of that
// moment, and it is not one that the job itself would try again.
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
		return false // what is stored goes with its own record, as artifacts do
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
