package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// freshFor is how old the roster may be, beyond the time between two refreshes, before whoever
// needs it reads it; and how old it may be where it says that something cannot be.
const freshFor = time.Second

// Worker is what admission judges a connected worker by.
type Worker struct {
	ID, Pool string
	Host     policy.Host // what it can enforce
	Offer    placement.Offer
	Cordoned bool // an operator keeps it from taking jobs
	Paused   bool // an operator has paused its pool, which cordons it

	host json.RawMessage // of which Host was read
}

// Takes reports whether the worker can run what has a need.
func (w *Worker) Takes(n placement.Need) bool { return w.Offer.Takes(w.Pool, n) }

// roster is the connected workers, as they were when the store was last read. It does not
// change.
type roster struct {
	at      time.Time
	workers []Worker          // those that say what they can enforce, by id
	images  map[string]string // name → digest, "" where workers do not agree
}

// enroll makes the roster of what the store has just said. What a worker says of its host is
// decoded only when it is new.
func (f *Fleet) enroll(ws []store.Worker, known map[string]member) {
	before := map[string]*Worker{}
	if old := f.roster.Load(); old != nil {
		for i := range old.workers {
			before[old.workers[i].ID] = &old.workers[i]
		}
	}
	r := &roster{at: time.Now(), workers: make([]Worker, 0, len(ws)), images: map[string]string{}}
	for _, w := range ws {
		m := known[w.ID]
		n := Worker{ID: w.ID, Pool: w.Pool, Offer: m.offer, Cordoned: m.cordoned, Paused: w.Cordon != nil && w.Cordon.Pool, host: w.Host}
		if old := before[w.ID]; old != nil && bytes.Equal(old.host, w.Host) {
			n.Host = old.Host
		} else if json.Unmarshal(w.Host, &n.Host) != nil {
			continue // of another version; it says nothing
		}
		r.agree(n.Host.ImageDigests)
		if len(n.Host.Isolations) > 0 {
			r.workers = append(r.workers, n)
		}
	}
	slices.SortFunc(r.workers, func(a, b Worker) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	f.roster.Store(r)
}

// agree keeps the names of images that mean the same to every worker that knows them. While
// an image is being replaced, its name means nothing.
func (r *roster) agree(digests map[string]string) {
	for name, digest := range digests {
		if known, ok := r.images[name]; ok && known != digest {
			digest = ""
		}
		r.images[name] = digest
	}
}

// now returns the roster, at most a few seconds old where the store answers; nil if nothing is
// known.
func (f *Fleet) now() *roster {
	r := f.roster.Load()
	if r != nil && time.Since(r.at) < f.every+freshFor {
		return r
	}
	_, _, _ = f.asked.Get(context.Background()) // it has its own patience
	return f.roster.Load()
}

// List returns the connected workers by their ids; nil where nothing is known of them. It is
// not to be changed.
func (f *Fleet) List() []Worker {
	if r := f.now(); r != nil {
		return r.workers
	}
	return nil
}

// fresh is List, read anew where that is not of this second: nobody is refused, or told to
// wait, for want of a worker that has come since.
func (f *Fleet) fresh() []Worker {
	if r := f.roster.Load(); r == nil || time.Since(r.at) >= freshFor {
		_, _, _ = f.asked.Get(context.Background()) // it has its own patience
	}
	return f.List()
}

// Images returns what the names of images mean to the workers that are there: "" where they do
// not agree. It is read anew where that is not of this second, so that a dispatcher that takes over knows what workers have said.
// It fails where it is not known.
func (f *Fleet) Images() (map[string]string, error) {
	f.fresh()
	r := f.roster.Load()
	if r == nil || time.Since(r.at) > Connected {
		return nil, fmt.Errorf("%w: the fleet is not known", job.ErrUnavailable)
	}
	return r.images, nil
}

// Hosts returns what the connected workers for a class of jobs can enforce; nothing
// if that is not known, since admission does not depend on it.
func (f *Fleet) Hosts(class string) []policy.Host {
	var out []policy.Host
	need := placement.ParseClass(class)
	for _, w := range f.List() {
		if w.Takes(need) {
			out = append(out, w.Host)
		}
	}
	return out
}

// Reserved says whether there are workers that take jobs with this image and
// few others.
func (f *Fleet) Reserved(image string) bool {
	return slices.ContainsFunc(f.List(), func(w Worker) bool { return slices.Contains(w.Offer.Images, image) })
}
